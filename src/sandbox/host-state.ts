import { join } from 'node:path'
import type { TmpfsMount } from './driver.ts'
import { type Maker, realMaker } from './maker.ts'
import type { BindMount } from './mounts.ts'
import { isWithin, realOf, realStat } from './paths.ts'
import { entriesOf, fromRaw, kindOf, toRaw } from './raw-path.ts'

/** What decides which state of an agent is in a sandbox. */
export interface HostStateQuestion {
  /** The caller's home folder. */
  readonly home: string
  /** Where runs are recorded. */
  readonly iterionHome: string
  readonly workspace: BindMount
  /** Whose the scratch folders are; undefined: root's. */
  readonly owner: { readonly uid: number; readonly gid: number } | undefined
  /** How much each scratch folder may hold, in bytes. */
  readonly scratchBytes: number
  /** Makes what is missing; default: really. */
  readonly maker?: Maker
  /** Real paths of folders that will be there, although they are not yet; default: none. */
  readonly recorded?: readonly string[]
}

/** The state of agents in a sandbox. */
export interface HostState {
  /** Parents first. */
  readonly mounts: readonly BindMount[]
  /** Folders that an agent fills in every run anew; to be laid over the mounts. */
  readonly scratch: readonly TmpfsMount[]
  readonly skipped: readonly { readonly path: string; readonly reason: string }[]
  /** Empty folders that were made so that something can be bound over them. */
  readonly made: readonly string[]
}

interface StateFolder {
  /** Below the home. */
  readonly name: string
  /** What an agent writes and a later run reads: text for the agent, and its login. A `*` is any one name. */
  readonly kept: readonly { readonly path: string; readonly kind: 'folder' | 'file' }[]
  /** Folders that an agent wants to write and nobody should read again: what is in some of them is run, or restored. */
  readonly scratch: readonly string[]
}

const folder = (path: string) => ({ path, kind: 'folder' }) as const
const file = (path: string) => ({ path, kind: 'file' }) as const

/**
 * The folders as a whole are read-only. Their settings, hooks, plugins, skills, commands and instructions are obeyed by
 * programs of the host, more kinds come with every version, and one that does not exist yet cannot be bound over: so it
 * is listed what may be written, and not what may not.
 */
const STATE: readonly StateFolder[] = [
  {
    name: '.iterion',
    kept: [folder('memory'), folder('projects/*/memory'), folder('projects/*/bots/*/memory')],
    scratch: ['cache', 'tmp'],
  },
  {
    name: '.claude',
    kept: [
      folder('projects'),
      folder('todos'),
      folder('tasks'),
      folder('plans'),
      file('history.jsonl'),
      // A login is renewed in use: unless the new one is kept, the host is logged out.
      file('.credentials.json'),
    ],
    // `shell-snapshots` and `session-env` are sourced by shells, `file-history` is written back over files, `backups`
    // are restored as settings.
    scratch: [
      'backups',
      'cache',
      'debug',
      'file-history',
      'paste-cache',
      'session-env',
      'sessions',
      'shell-snapshots',
      'statsig',
      'telemetry',
    ],
  },
]

/**
 * What of the agents' own state is in a sandbox with `host_state: auto`. Missing folders of the lists are made on the
 * host, since inside they could not be. Nothing outside the home comes in, and nothing that the workspace holds comes
 * twice.
 */
export function hostState(question: HostStateQuestion): HostState {
  const { home, workspace, recorded = [] } = question
  const all: HostState[] = STATE.map((state) => {
    const path = join(home, state.name)
    const stat =
      realStat(path) ??
      (recorded.includes(realOf(path)) ? { real: realOf(path), isFolder: true } : undefined)
    const reason =
      stat?.isFolder !== true
        ? 'it is not there'
        : !isWithin(realOf(home), stat.real)
          ? 'it leads out of the home folder'
          : isWithin(workspace.source, stat.real)
            ? 'the workspace holds it'
            : undefined
    return stat === undefined || reason !== undefined
      ? { mounts: [], scratch: [], skipped: [{ path, reason: reason ?? '' }], made: [] }
      : folderState(state, path, stat.real, question)
  })
  return {
    mounts: all.flatMap(({ mounts }) => mounts),
    scratch: all.flatMap(({ scratch }) => scratch),
    skipped: all.flatMap(({ skipped }) => skipped),
    made: all.flatMap(({ made }) => made),
  }
}

function folderState(
  state: StateFolder,
  path: string,
  real: string,
  { iterionHome, owner, scratchBytes, maker = realMaker, recorded = [] }: HostStateQuestion,
): HostState {
  const mounts: BindMount[] = [{ source: real, target: path, readOnly: true }]
  const scratch: TmpfsMount[] = []
  const skipped: { path: string; reason: string }[] = []
  const made: string[] = []
  const use = (name: string, kind: 'folder' | 'file', bind: () => void) => {
    const source = join(real, name)
    const isRecorded = recorded.includes(source)
    const before = isRecorded ? 'folder' : kindOf(toRaw(source))
    const isMade = kind === 'folder' && before === 'none' && makeFolder(source, maker)
    if (isMade) made.push(source)
    const found = isMade ? kind : before
    if (found === kind) bind()
    else if (found === 'none') skipped.push({ path: join(path, name), reason: 'it is not there' })
    else skipped.push({ path: join(path, name), reason: `it is no ${kind} of its own` })
  }
  for (const { path: pattern, kind } of state.kept) {
    for (const name of namesOf(real, pattern)) {
      const mount = { source: join(real, name), target: join(path, name), readOnly: false }
      use(name, kind, () => mounts.push(mount))
    }
  }
  for (const name of state.scratch) {
    const target = join(path, name)
    const one = { target, mode: '0700', owner, sizeBytes: scratchBytes, executable: true }
    use(name, 'folder', () => scratch.push(one))
  }
  // Said in so many words, although it lies in what is read-only: it may be inside of what is kept.
  const runs = realOf(join(iterionHome, 'runs'))
  if (isWithin(real, runs) && (recorded.includes(runs) || realStat(runs)?.isFolder === true)) {
    mounts.push({ source: runs, target: join(path, runs.slice(real.length)), readOnly: true })
  }
  return { mounts, scratch, skipped, made }
}

/** The names below a folder that a pattern means; a name without `*` is meant whether it is there or not. */
function namesOf(root: string, pattern: string): readonly string[] {
  return pattern.split('/').reduce<readonly string[]>(
    (names, part) =>
      names.flatMap((name) =>
        part === '*'
          ? entriesOf(toRaw(join(root, name)))
              .filter((entry) => entry.isDirectory())
              .map((entry) => join(name, fromRaw(entry.name)))
          : [join(name, part)],
      ),
    [''],
  )
}

function makeFolder(path: string, maker: Maker): boolean {
  try {
    maker.privateFolder(path)
    return true
  } catch {
    return false
  }
}
