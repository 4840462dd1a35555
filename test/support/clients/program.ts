import { execFileSync } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'

/** Where clients and the programs that they call are looked for: the system's, then the caller's. */
export const PROGRAM_PATH = [
  '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  dirname(process.execPath),
  ...(process.env['PATH'] ?? '').split(delimiter).filter((one) => !one.includes('node_modules')),
].join(delimiter)

/** The path of a program, or undefined. */
export function findProgram(name: string): string | undefined {
  return PROGRAM_PATH.split(delimiter)
    .map((folder) => join(folder, name))
    .find((path) => {
      try {
        accessSync(path, constants.X_OK)
        return true
      } catch {
        return false
      }
    })
}

/** Debian's own Python if it is there, else the first on the path. */
export const PYTHON = findProgramAt('/usr/bin/python3') ?? findProgram('python3') ?? 'python3'

function findProgramAt(path: string): string | undefined {
  try {
    accessSync(path, constants.X_OK)
    return path
  } catch {
    return undefined
  }
}

/** Why a test cannot run here: the first of `programs` that is missing. With CI=true that is a failure instead. */
export function lacks(...programs: readonly string[]): string | false {
  const missing = programs.find((name) => findProgram(name) === undefined)
  return missing === undefined ? false : skipped(`${missing} is not installed`)
}

/** As `lacks`, for a module of Python. */
export function lacksPython(module: string): string | false {
  try {
    execFileSync(PYTHON, ['-I', '-c', `import ${module}`], { stdio: 'pipe', timeout: 30_000 })
    return false
  } catch {
    return skipped(`Python's ${module} is not installed`)
  }
}

function skipped(why: string): string {
  if (process.env['CI'] === 'true') throw new Error(`${why}, and CI=true asks for every client`)
  return why
}

/** The version that a program prints, from the first match of `pattern` in its output. */
export function versionOf(program: string, args: readonly string[], pattern: RegExp): string {
  const text = execFileSync(program, args, {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: 30_000,
    env: { PATH: PROGRAM_PATH },
  })
  return pattern.exec(text)?.[1] ?? 'unknown'
}
