import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { TEST_IMAGE } from '../../support/docker.ts'

/** What an attempt has to work with. */
export interface Place {
  /** The repository. */
  readonly repository: string
  /** The folder that the run works in. */
  readonly workspace: string
  /** A folder beside it, with `secret.txt` in it. */
  readonly outside: string
}

/** One way in which a repository tries to reach out of its sandbox. */
export interface Attempt {
  readonly name: string
  /** Its devcontainer.json: keys beside an image that works, or the whole text. */
  readonly says?:
    | Readonly<Record<string, unknown>>
    | ((place: Place) => Readonly<Record<string, unknown>>)
    | string
  /** Makes what else it needs. */
  readonly prepares?: (place: Place) => void
  /** The folder of the repository that is the workspace; default: the repository. */
  readonly inside?: string
  /** Why it is refused, and on which line of the file; a line of 0: of the file as a whole. */
  readonly refused?: readonly [line: number, reason: RegExp]
  /** It runs: what the command prints then. */
  readonly prints?: RegExp
  /** It runs: what the command must not print. */
  readonly never?: RegExp
}

/** Where its devcontainer.json is. */
export const FILE = '.devcontainer/devcontainer.json'

/** Writes the repository of an attempt. The image stands on line 2, what it says from line 3 on. */
export function writeRepository({ says, prepares }: Attempt, place: Place): void {
  const { repository } = place
  execFileSync('git', ['init', '--quiet', repository])
  const said = typeof says === 'function' ? says(place) : (says ?? {})
  const keys = typeof said === 'string' ? {} : { image: TEST_IMAGE, ...said }
  const text = typeof said === 'string' ? said : JSON.stringify(keys, null, 2)
  mkdirSync(path.join(repository, '.devcontainer'), { recursive: true })
  writeFileSync(path.join(repository, FILE), text)
  prepares?.(place)
}
