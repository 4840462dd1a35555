import type { EgressError } from '../../errors.ts'
import { isImageReference } from '../image-reference.ts'
import { isUser, isWorkspaceFolder } from '../workflow-schema.ts'
import { checkBuild, type RepositoryBuild } from './build-entry.ts'
import type { DevcontainerFile } from './find-devcontainer.ts'
import { type JsonPath, JsoncSource } from './jsonc-source.ts'
import { IGNORED, SILENT } from './keys.ts'
import { type MountEntry, parseMountEntry } from './mount-entry.ts'
import { readRunArgs, type RunArgsEffect } from './run-args.ts'
import { type Command, type IgnoredKey, type TextForm, ValueReader } from './value-reader.ts'
import type { VariableValues } from './variables.ts'

type Root = Readonly<Record<string, unknown>>

const IMAGE: TextForm = { test: isImageReference, name: 'the name of an image' }
const USER: TextForm = { test: isUser, name: 'a name, UID or UID:GID' }
const FOLDER: TextForm = {
  test: isWorkspaceFolder,
  name: 'an absolute path without . and .., not /, and not in /proc, /sys or /dev',
}

/** A devcontainer.json, read: its variables filled in, everything in it of the right kind, nothing of it judged by the host. */
export interface Devcontainer {
  /** Relative to the repository. */
  readonly file: string
  readonly image: string | undefined
  readonly build: RepositoryBuild | undefined
  readonly containerEnv: Readonly<Record<string, string>>
  /** `${containerEnv:…}` in it is still open. */
  readonly remoteEnv: Readonly<Record<string, string>>
  /** `remoteUser`, else `containerUser`. */
  readonly user: string | undefined
  readonly workspaceFolder: string | undefined
  readonly workspaceMount: MountEntry | undefined
  readonly mounts: readonly MountEntry[]
  /** Several run at once. */
  readonly postCreate: readonly Command[]
  /** Words for the engine. */
  readonly engineArgs: readonly string[]
  readonly ignored: readonly IgnoredKey[]
  /** Variables of the host that were asked for and not given. */
  readonly withheld: readonly string[]
  /** Reports a problem at a place of the file, as the file's own are reported. */
  readonly problemAt: (path: JsonPath, reason: string) => EgressError
}

/**
 * Reads a devcontainer.json. What is refused in it refuses the file: nothing of it is taken out, and nothing else is
 * taken in its place.
 *
 * @param repository the folder that its paths must stay in, absolute and real
 * @param values what its variables stand for; `containerWorkspaceFolder` holds unless the file names one
 * @throws {EgressError} with every problem of the file: DEVCONTAINER_INVALID for what is no JSON or of the wrong kind,
 *   SANDBOX_SPEC_UNSAFE for what would open the sandbox
 */
export function readDevcontainer(
  file: DevcontainerFile,
  repository: string,
  values: VariableValues,
): Devcontainer {
  const source = new JsoncSource(file.text, file.name)
  const value = source.value()
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    source.report('DEVCONTAINER_INVALID', [], 'expected an object')
    throw source.error()
  }
  const root = value as Root
  const reader = new ValueReader(source, values)
  const workspaceFolder = reader.checked(['workspaceFolder'], root['workspaceFolder'], FOLDER)
  if (workspaceFolder !== undefined) {
    reader.values = { ...values, containerWorkspaceFolder: workspaceFolder }
  }
  checkKeys(root, reader)
  const image = reader.checked(['image'], root['image'], IMAGE)
  const build = checkBuild(root, { folder: file.folder, repository }, reader)
  const runArgs = readFlags(root, reader)
  const remoteUser = reader.checked(['remoteUser'], root['remoteUser'], USER)
  const containerUser = reader.checked(['containerUser'], root['containerUser'], USER)
  const containerEnv = reader.record(['containerEnv'], root['containerEnv'])
  const devcontainer = {
    file: file.name,
    image,
    build,
    containerEnv: { ...containerEnv, ...runArgs.env },
    remoteEnv: reader.record(['remoteEnv'], root['remoteEnv']),
    user: remoteUser ?? runArgs.user ?? containerUser,
    workspaceFolder,
    workspaceMount: readMount(['workspaceMount'], root['workspaceMount'], reader),
    mounts: readMounts(root, reader),
    postCreate: reader.commands(['postCreateCommand'], root['postCreateCommand']),
    engineArgs: runArgs.engineArgs,
    ignored: reader.ignored,
    withheld: reader.withheld,
  }
  if (image === undefined && build === undefined && source.problems.length === 0) {
    source.report('DEVCONTAINER_INVALID', [], 'names neither an image nor a build')
  }
  if (source.problems.length > 0) throw source.error()
  return {
    ...devcontainer,
    problemAt: (path, reason) => {
      reader.unsafe(path, reason)
      return source.error()
    },
  }
}

function checkKeys(root: Root, reader: ValueReader): void {
  for (const [key, value] of Object.entries(root)) {
    if (key === 'privileged' && value !== false) {
      reader.unsafe([key], 'it would give rights over the host')
    } else if ((key === 'capAdd' || key === 'securityOpt') && !isEmpty(value)) {
      reader.unsafe([key], 'it would take a fence away')
    } else if (key === 'dockerComposeFile') {
      reader.unsafe([key], 'several containers are not supported; name an image or a build')
    } else if (Object.hasOwn(IGNORED, key)) {
      if (!isEmpty(value)) reader.ignore(key, IGNORED[key] ?? '')
    } else if (!SILENT.has(key)) {
      reader.ignore(key, 'not known')
    }
  }
}

/** True for what says nothing: templates are full of it. */
function isEmpty(value: unknown): boolean {
  if (typeof value !== 'object') return value === ''
  return value === null || Object.keys(value).length === 0
}

function readFlags(root: Root, reader: ValueReader): RunArgsEffect {
  const effect = readRunArgs(reader.list(['runArgs'], root['runArgs']))
  for (const { index, flag, reason } of effect.refused) {
    reader.unsafe(['runArgs', index], `${JSON.stringify(flag)}: ${reason}`)
  }
  for (const { flag, reason } of effect.ignored) reader.ignore(`runArgs ${flag}`, reason)
  if (effect.user !== undefined && !isUser(effect.user)) {
    reader.unsafe(['runArgs'], `${JSON.stringify(effect.user)} is no user`)
  }
  for (const [name, value] of Object.entries(effect.env)) {
    reader.isVariable(['runArgs'], name, value)
  }
  return effect
}

function readMounts(root: Root, reader: ValueReader): MountEntry[] {
  const { mounts = [] } = root
  if (!Array.isArray(mounts)) {
    reader.invalid(['mounts'], 'expected a list')
    return []
  }
  return mounts.flatMap((one: unknown, index) => readMount(['mounts', index], one, reader) ?? [])
}

function readMount(path: JsonPath, written: unknown, reader: ValueReader): MountEntry | undefined {
  if (written === undefined) return undefined
  const entry = parseMountEntry(
    typeof written === 'string' ? reader.expand(written) : expandFields(written, reader),
  )
  if (!('fault' in entry)) {
    if (entry.type === 'volume' && entry.source !== '') {
      reader.ignore(path.join('.'), `the volume ${entry.source} is not kept between runs`)
    }
    return entry
  }
  reader.unsafe(path, `a mount cannot be taken: ${entry.fault}`)
  return undefined
}

function expandFields(written: unknown, reader: ValueReader): unknown {
  if (typeof written !== 'object' || written === null || Array.isArray(written)) return written
  return Object.fromEntries(
    Object.entries(written).map(([name, value]): [string, unknown] => [
      name,
      typeof value === 'string' ? reader.expand(value) : value,
    ]),
  )
}
