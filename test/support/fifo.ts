import { spawnSync } from 'node:child_process'
import { closeSync, constants, openSync, readSync } from 'node:fs'
import { join } from 'node:path'
import type { Test } from 'tap'
import { until } from './proxy.ts'

/** Makes a named pipe in the folder of a test. */
export function makeFifo(t: Test): string {
  const path = join(t.testdir(), 'pipe')
  const made = spawnSync('mkfifo', ['-m', '600', path])
  if (made.status !== 0) throw new Error(`mkfifo: ${String(made.stderr)}`)
  return path
}

/** A pipe with a reader that does not read yet. */
export function openFifo(t: Test): { path: string; reader: number } {
  const path = makeFifo(t)
  return { path, reader: openReader(path) }
}

/** Opens a pipe for reading, without waiting for a writer. */
export function openReader(path: string): number {
  return openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
}

/** Reads a pipe from now on; the text is whole once the writer has closed it. */
export function readOn(reader: number): { readonly text: string; readonly ended: Promise<void> } {
  let text = ''
  let isEnded = false
  const chunk = Buffer.alloc(65_536)
  const ended = until(
    'the pipe is closed',
    () => {
      for (;;) {
        try {
          const length = readSync(reader, chunk)
          if (length === 0) isEnded = true
          if (length === 0) break
          text += chunk.toString('utf8', 0, length)
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw error
          break
        }
      }
      return isEnded
    },
    30_000,
  ).finally(() => closeSync(reader))
  return {
    get text() {
      return text
    },
    ended,
  }
}

/** How many descriptors of this process lead to a file. */
export function openCount(path: string): number {
  const listed = spawnSync('sh', ['-c', `ls -l /proc/${process.pid}/fd 2>/dev/null`])
  return String(listed.stdout)
    .split('\n')
    .filter((line) => line.endsWith(path)).length
}

/** What can be read at once. */
export function readSome(reader: number): string {
  const chunk = Buffer.alloc(65_536)
  try {
    return chunk.toString('utf8', 0, readSync(reader, chunk))
  } catch {
    return ''
  }
}
