import type { StdioOptions } from 'node:child_process'
import { readFileSync, readlinkSync } from 'node:fs'
import { isatty } from 'node:tty'
import { EgressError } from '../errors.ts'
import { mayPass } from './inherited-streams.ts'

type Stream = Exclude<StdioOptions, string>[number]

/** Standard input, output and error, each as one that can be given to a process under another number. */
export type StandardStreams = readonly [input: Stream, output: Stream, errors: Stream]

const NAMES = ['input', 'output', 'error']

/**
 * The standard streams that a sealed command is given.
 *
 * @throws {EgressError} SANDBOX_DOOR_FAILED if one of them is none of a file, a pipe, a terminal or a socket of this machine: it
 * would lead past the door
 */
export function standardStreams(stdio: StdioOptions): StandardStreams {
  const [input, output, errors] = typeof stdio === 'string' ? [stdio, stdio, stdio] : stdio
  const at = (stream: Stream, descriptor: number) =>
    stream === 'inherit' || stream === undefined ? descriptor : stream
  const streams = [at(input, 0), at(output, 1), at(errors, 2)] as const
  for (const [i, stream] of streams.entries()) {
    if (typeof stream !== 'number') continue
    const kind = linkOf(stream)
    // One that is closed is none.
    if (kind === '' || mayPass(stream) || isLocalSocket(kind)) continue
    throw new EgressError(
      'SANDBOX_DOOR_FAILED',
      `standard ${NAMES[i]} (${kind}) may lead past the door: it is no file, pipe, terminal or socket of this machine; put a pipe between, as in: … | cat`,
    )
  }
  return streams
}

/** True if the command is given a terminal to read from. */
export function isAtTerminal([input]: StandardStreams): boolean {
  return typeof input === 'number' && isatty(input)
}

/** True for an open socket that is in the system's list of those that are files or pairs of this machine. */
function isLocalSocket(kind: string): boolean {
  const [, inode] = /^socket:\[(\d+)\]$/.exec(kind) ?? []
  if (inode === undefined) return false
  const lines = readFileSync('/proc/self/net/unix', 'latin1').split('\n')
  return lines.some((line) => line.trim().split(/ +/)[6] === inode)
}

function linkOf(descriptor: number): string {
  try {
    return readlinkSync(`/proc/self/fd/${descriptor}`)
  } catch {
    // It is closed.
    return ''
  }
}
