import { createHash } from 'node:crypto'
import { lstatSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { harmfulLines, isHarmlessConfig } from './git-config.ts'
import { hasOddEntry, objectIdBytes } from './git-index.ts'
import { isWithin, realStat } from './paths.ts'
import {
  entriesOf,
  foldersBelow,
  fromRaw,
  identityOf,
  kindOf,
  linkTarget,
  type RawPath,
  readRaw,
  toRaw,
} from './raw-path.ts'

/** Something in a git folder by which git may run a program, or read or write elsewhere. */
export interface GitDanger {
  readonly path: RawPath
  /** Differs when what is there differs. */
  readonly print: string
}

/** The most of a file that is read, in bytes; what is larger counts as dangerous whatever it holds. */
const MAX_READ = 1024 * 1024
/** The most of an index that is read, in bytes: more than half a million files. */
const MAX_INDEX = 64 * 1024 * 1024
/** A step of a rebase that runs a command when the rebase goes on. */
const EXEC_STEP = /^\s*(?:x|exec)\s/m

/** Git's own ways to merge. Of any other name it runs the program `git-merge-NAME`, with a slash one of the tree. */
const OWN = '(?:resolve|recursive|ort|octopus|ours|subtree)'
const OWN_NAME = new RegExp(`^${OWN}?\\s*$`)
const OWN_LINE = new RegExp(`^\\s*strategy(?:-option\\s*=.*| = ${OWN})$`)

/** What a git folder is a part of. */
type GitKind = 'repository' | 'entry' | 'module'

interface Judgement {
  /**
   * For a folder whose settings and hooks are read-only in a sandbox. The host may change them meanwhile, so harmless
   * settings do not count, nor what is put into the folder of hooks, but a folder put in its place does. A guard is gone
   * once the host replaces what is under it, as git does with a file of settings: so they are judged all the same.
   */
  readonly isGuarded?: boolean
  /** Leaves out links: a bare repository may lie among other files. */
  readonly isBare?: boolean
  readonly kind?: GitKind
}

/** The dangers of a git folder and of those inside it. */
export function dangersOf(folder: RawPath, judgement: Judgement = {}): readonly GitDanger[] {
  const { isGuarded = false, isBare = false, kind = 'repository' } = judgement
  const dangers = isBare ? [] : linksIn(folder)
  for (const root of rootsOf(folder, kind)) {
    for (const name of ['objects/info/alternates', 'objects/info/http-alternates']) {
      addFile(dangers, join(root.path, name))
    }
    addFile(dangers, join(root.path, 'rebase-merge/git-rebase-todo'), (text) =>
      EXEC_STEP.test(text),
    )
    addFile(dangers, join(root.path, 'rebase-merge/strategy'), isForeignStrategy)
    addFile(dangers, join(root.path, 'sequencer/opts'), hasForeignStrategy)
    addIndexes(dangers, root)
    const isEntry = root.kind === 'entry'
    addFile(dangers, join(root.path, 'commondir'), (text) => !isEntry || text.trim() !== '../..')
    if (isGuarded && root.path === folder) {
      dangers.push(...guardedDangers(folder))
      continue
    }
    const isModule = root.kind === 'module'
    addFile(dangers, join(root.path, 'config'), (text) => !isHarmlessConfig(text, isModule))
    addFile(dangers, join(root.path, 'config.worktree'), (text) => text.trim() !== '')
    for (const { name } of entriesOf(join(root.path, 'hooks'))) {
      if (!name.endsWith('.sample')) addFile(dangers, join(root.path, 'hooks', name))
    }
  }
  return dangers
}

function guardedDangers(folder: RawPath): readonly GitDanger[] {
  const settings = ['config', 'config.worktree'].flatMap((name) => {
    const path = join(folder, name)
    if (kindOf(path) !== 'file') return []
    const text = readRaw(path, MAX_READ)
    const harmful = text === undefined ? [name] : harmfulLines(text)
    return harmful.length === 0 ? [] : [{ path, print: printOf(harmful.join('\n')) }]
  })
  const hooks = join(folder, 'hooks')
  return kindOf(hooks) === 'folder'
    ? [...settings, { path: hooks, print: identityOf(hooks) }]
    : settings
}

/**
 * What makes a `.git` inside a workspace dangerous; undefined if git would only find data there. A file may lead to the
 * parts of a git folder that is watched itself.
 */
export function nestedPrint(path: RawPath, folders: readonly RawPath[]): string | undefined {
  const kind = kindOf(path)
  if (kind === 'none') return undefined
  if (kind === 'link') return printOf(`link ${linkTarget(path)}`)
  if (kind === 'file') {
    const text = readRaw(path, MAX_READ) ?? 'too large'
    return isHarmlessPointer(path, text, folders) ? undefined : printOf(`file ${text}`)
  }
  if (kind !== 'folder') return printOf(kind)
  const dangers = dangersOf(path)
  return dangers.length === 0
    ? undefined
    : printOf(dangers.map((one) => `${one.path.slice(path.length)} ${one.print}`).join('\n'))
}

/** Whether a `.git` file leads to a worktree's entry or a submodule of a watched folder, and to no danger. */
function isHarmlessPointer(path: RawPath, text: string, folders: readonly RawPath[]): boolean {
  const led = resolve(dirname(path), text.replace(/^gitdir: /, '').replace(/[\r\n]+$/, ''))
  const real = realStat(fromRaw(led))
  if (real?.isFolder !== true) return false
  const target = toRaw(real.real)
  return folders.some((folder) => {
    const modules = join(folder, 'modules')
    if (dirname(target) === join(folder, 'worktrees')) {
      return dangersOf(target, { kind: 'entry' }).length === 0
    }
    return target !== modules && isWithin(modules, target)
      ? dangersOf(target, { kind: 'module' }).length === 0
      : false
  })
}

interface Root {
  readonly path: RawPath
  readonly kind: GitKind
}

/** A git folder and those inside it: its worktrees' entries, the repositories of its submodules, and so on. */
function rootsOf(folder: RawPath, kind: GitKind): readonly Root[] {
  const entries = foldersIn(join(folder, 'worktrees')).flatMap((path) => rootsOf(path, 'entry'))
  return [{ path: folder, kind }, ...entries, ...modulesIn(join(folder, 'modules'))]
}

/** Submodules have names with slashes: a folder is a repository if it has a HEAD, else one more part of a name. */
function modulesIn(folder: RawPath): readonly Root[] {
  return foldersIn(folder).flatMap((path) =>
    kindOf(join(path, 'HEAD')) === 'none' && kindOf(join(path, 'config')) === 'none'
      ? modulesIn(path)
      : rootsOf(path, 'module'),
  )
}

function foldersIn(folder: RawPath): readonly string[] {
  return kindOf(folder) === 'folder'
    ? entriesOf(folder)
        .filter((entry) => entry.isDirectory())
        .map(({ name }) => join(folder, name))
    : []
}

/** Links in a git folder: git writes through those of its logs and messages into whatever file they lead to. */
function linksIn(folder: RawPath): GitDanger[] {
  // Of objects there are many, and git never opens one to write over it.
  const isEntered = (path: RawPath) => !/\/objects\/(?:[0-9a-f]{2}|pack)$/.test(path)
  return [...foldersBelow(folder, isEntered)].flatMap(({ path, entries }) =>
    entries
      .filter((entry) => entry.isSymbolicLink())
      .map(({ name }) => join(path, name))
      .map((link) => ({ path: link, print: printOf(`link ${linkTarget(link)}`) })),
  )
}

function addFile(
  dangers: GitDanger[],
  path: RawPath,
  isDangerous: (text: string) => boolean = () => true,
): void {
  const kind = kindOf(path)
  // A link is listed already.
  if (kind === 'none' || kind === 'link') return
  const text = kind === 'file' ? readRaw(path, MAX_READ) : undefined
  if (text === undefined || isDangerous(text)) {
    dangers.push({ path, print: printOf(text ?? stampOf(kind, path)) })
  }
}

/** An index, and the files that a split one goes on in. */
function addIndexes(dangers: GitDanger[], root: Root): void {
  const shared = entriesOf(root.path).filter(({ name }) => name.startsWith('sharedindex.'))
  const paths = ['index', ...shared.map(({ name }) => name)].map((name) => join(root.path, name))
  const config = join(root.path, root.kind === 'entry' ? '../../config' : 'config')
  const settings = kindOf(config) === 'none' ? '' : readRaw(config, MAX_INDEX)
  const idBytes = settings === undefined ? undefined : objectIdBytes(settings)
  for (const path of paths) {
    const kind = kindOf(path)
    if (kind === 'none' || kind === 'link') continue
    const text = kind === 'file' ? readRaw(path, MAX_INDEX) : undefined
    const bytes = text === undefined ? undefined : Buffer.from(text, 'latin1')
    if (bytes === undefined) dangers.push({ path, print: printOf(stampOf(kind, path)) })
    else if (idBytes === undefined || hasOddEntry(bytes, idBytes)) {
      dangers.push({ path, print: printOf(bytes) })
    }
  }
}

/** Whether a file that holds the strategy of a rebase names a program that is not git's. */
function isForeignStrategy(text: string): boolean {
  return !OWN_NAME.test(text)
}

/** The same of the options of a series of picks or reverts, which are written like a configuration. */
function hasForeignStrategy(text: string): boolean {
  return text.split('\n').some((line) => /strategy/i.test(line) && !OWN_LINE.test(line))
}

/** Tells apart a file at two times without reading it: no program sets the time of its last change. */
function stampOf(kind: string, path: RawPath): string {
  if (kind !== 'file') return kind
  const { dev, ino, size, ctimeMs } = lstatSync(Buffer.from(path, 'latin1'))
  return `${dev}:${ino}:${size}:${ctimeMs}`
}

function printOf(text: string | Buffer): string {
  return createHash('sha256').update(text).digest('hex')
}
