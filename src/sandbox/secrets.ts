import { closeSync, constants, fstatSync, openSync, readFileSync, realpathSync } from 'node:fs'
import path from 'node:path'
import { EgressError } from '../errors.ts'
import type { Driver, ExecSpec } from './driver.ts'
import { fitsVariable } from './env-file.ts'
import type { SandboxHost } from './host.ts'
import { isWithin, realOf } from './paths.ts'
import type { Workflow } from './spec.ts'

/** Where secrets as files are inside the sandbox. */
export const SECRETS_TARGET = '/run/secrets'

/** Where variables are that an env file cannot hold. */
export const SHELL_FILE = `${SECRETS_TARGET}/.env`

/** The most that a secret may have, in bytes. */
const MAX_SECRET_BYTES = 1024 * 1024

/** The secrets of a run, read from where the workflow says. They are in memory alone. */
export interface Secrets {
  /** Variables, the paths of the files among them as `NAME_FILE`. */
  readonly env: Readonly<Record<string, string>>
  readonly files: readonly { readonly name: string; readonly content: Buffer }[]
}

/** The secrets that a run gets: without a sandbox there is no memory that a file could be in. */
export function deliveredSecrets(
  secrets: Workflow['secrets'],
  isSandboxed: boolean,
): Workflow['secrets'] {
  return isSandboxed ? secrets : secrets.filter((secret) => secret.as !== 'file')
}

/** @throws {EgressError} OPTION_INVALID for a secret that is nowhere; FILE_UNREADABLE */
export function readSecrets(workflow: Workflow, host: SandboxHost, workspace: string): Secrets {
  const env: Record<string, string> = {}
  const files: { name: string; content: Buffer }[] = []
  for (const { name, as, from } of workflow.secrets) {
    const content = readSecret(name, from, path.dirname(workflow.file), workspace, host)
    if (as === 'file') {
      files.push({ name, content })
      env[`${name}_FILE`] = `${SECRETS_TARGET}/${name}`
      continue
    }
    if (content.includes(0)) {
      throw new EgressError(
        'OPTION_INVALID',
        `the secret ${name} holds a NUL byte and cannot be a variable; take it as: file`,
      )
    }
    const text = content.toString('utf8')
    if (!fitsVariable(name, text)) {
      throw new EgressError(
        'OPTION_INVALID',
        `the secret ${name} has ${content.length} bytes, and a variable less than 128 KiB; take it as: file`,
      )
    }
    if (!Buffer.from(text).equals(content)) {
      throw new EgressError(
        'OPTION_INVALID',
        `the secret ${name} is not UTF-8 and cannot be a variable; take it as: file`,
      )
    }
    env[name] = text
  }
  return { env, files }
}

function readSecret(
  name: string,
  from: Workflow['secrets'][number]['from'],
  folder: string,
  workspace: string,
  host: SandboxHost,
): Buffer {
  if ('env' in from) {
    const value = host.env[from.env]
    if (value !== undefined) return Buffer.from(value)
    throw new EgressError(
      'OPTION_INVALID',
      `the secret ${name} comes from the variable ${from.env}, which is not set`,
    )
  }
  const file = path.resolve(host.cwd, folder, from.file)
  let descriptor: number | undefined
  try {
    // Not by waiting for whoever writes into a pipe.
    descriptor = openSync(file, constants.O_RDONLY | constants.O_NONBLOCK)
    const status = fstatSync(descriptor)
    if (!status.isFile()) throw new Error(`${file} is no regular file`)
    if (status.size > MAX_SECRET_BYTES) throw new Error(`${file} is larger than 1 MiB`)
    const real = realpathSync(`/proc/self/fd/${descriptor}`)
    if (isWithin(workspace, file) && !isWithin(realOf(workspace), real)) {
      throw new Error(`${file} is a symbolic link that leads out of the workspace`)
    }
    return readFileSync(descriptor)
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new EgressError('FILE_UNREADABLE', `the secret ${name} cannot be read: ${why}`, {
      cause: error,
    })
  } finally {
    if (descriptor !== undefined) closeSync(descriptor)
  }
}

/**
 * Writes secrets as files into the memory of a sandbox, readable for its user alone: through standard input, so that
 * they are in no argument, in nothing that the engine remembers, in no file of this machine.
 *
 * @param shellFile variables that an env file cannot hold; empty if there are none
 * @throws {EgressError} SANDBOX_SETUP_FAILED
 */
export async function writeSecrets(
  driver: Driver,
  exec: ExecSpec,
  files: Secrets['files'],
  shellFile: string,
  signal: AbortSignal,
): Promise<void> {
  const all =
    shellFile === ''
      ? files
      : [...files, { name: path.basename(SHELL_FILE), content: Buffer.from(shellFile) }]
  for (const { name, content } of all) {
    const target = `${SECRETS_TARGET}/${name}`
    const command = ['/bin/sh', '-c', 'umask 277; cat > "$1"', 'sh', target]
    const { code, stderr } = await driver.run(
      { ...exec, envFile: undefined, workdir: '/', interactive: true, command },
      { input: content, signal },
    )
    if (code === 0) continue
    signal.throwIfAborted()
    throw new EgressError(
      'SANDBOX_SETUP_FAILED',
      `the secret ${name} cannot be written into the sandbox: ${stderr.trim().slice(-300)}`,
    )
  }
}
