import path from 'node:path'
import { isWithin, realStat } from '../paths.ts'
import type { JsonPath } from './jsonc-source.ts'
import type { ValueReader } from './value-reader.ts'

/** A build that a repository asks for. Paths are absolute and real, and inside the repository. */
export interface RepositoryBuild {
  readonly dockerfile: string
  readonly context: string
  readonly args: Readonly<Record<string, string>>
  readonly target: string | undefined
}

/** Where a build may be. */
interface BuildSite {
  /** The folder of the devcontainer.json. */
  readonly folder: string
  readonly repository: string
}

type BuildReader = Pick<ValueReader, 'text' | 'record' | 'unsafe' | 'invalid' | 'ignore'>

/** Keys of `build` that are read. */
const KEYS = new Set(['dockerfile', 'context', 'args', 'target'])
const TARGET = /^[A-Za-z0-9][\w.-]{0,127}$/

/** The build of a devcontainer.json, also in its old spelling; undefined if it has none, or one that is refused. */
export function checkBuild(
  root: Readonly<Record<string, unknown>>,
  site: BuildSite,
  reader: BuildReader,
): RepositoryBuild | undefined {
  const { build } = root
  const old = root['dockerFile']
  if (build === undefined && old === undefined) {
    if (root['context'] !== undefined) reader.ignore('context', 'there is no dockerFile beside it')
    return undefined
  }
  if (build !== undefined && !isObject(build)) {
    reader.invalid(['build'], 'expected an object')
    return undefined
  }
  const others = build === undefined ? ['image'] : ['image', 'dockerFile', 'context']
  for (const other of others.filter((key) => root[key] !== undefined)) {
    reader.invalid([other], 'a build stands beside it: one of them')
  }
  checkKeys(build ?? {}, reader)
  const base: JsonPath = build === undefined ? [] : ['build']
  const key = build === undefined ? 'dockerFile' : 'dockerfile'
  const written = build ?? root
  if (written[key] === undefined) reader.invalid(['build'], 'a build names its dockerfile')
  const dockerfile = reader.text([...base, key], written[key])
  const context = reader.text([...base, 'context'], written['context']) ?? '.'
  const target = reader.text([...base, 'target'], build?.['target'])
  const args = reader.record([...base, 'args'], build?.['args'])
  if (dockerfile === undefined) return undefined
  if (target !== undefined && !TARGET.test(target)) {
    reader.unsafe([...base, 'target'], `${JSON.stringify(target)} is no name of a stage`)
  }
  const file = inside([...base, key], dockerfile, 'file', site, reader)
  const folder = inside([...base, 'context'], context, 'folder', site, reader)
  if (file === undefined || folder === undefined) return undefined
  return { dockerfile: file, context: folder, args, target }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function checkKeys(build: Readonly<Record<string, unknown>>, reader: BuildReader): void {
  for (const key of Object.keys(build)) {
    if (key === 'cacheFrom') reader.ignore('build.cacheFrom', 'a matter of speed')
    else if (!KEYS.has(key))
      reader.unsafe(['build', key], 'it is not among the keys that are taken')
  }
}

function inside(
  place: JsonPath,
  written: string,
  kind: 'file' | 'folder',
  { folder, repository }: BuildSite,
  reader: BuildReader,
): string | undefined {
  const stat = realStat(path.isAbsolute(written) ? written : path.join(folder, written))
  const reason =
    stat === undefined
      ? 'it does not exist'
      : !isWithin(repository, stat.real)
        ? 'it is outside of the repository'
        : stat[kind === 'file' ? 'isFile' : 'isFolder']
          ? undefined
          : `it is no ${kind}`
  if (reason === undefined) return stat?.real
  reader.unsafe(place, `${JSON.stringify(written)}: ${reason}`)
  return undefined
}
