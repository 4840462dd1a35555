import { join } from 'node:path'
import { EgressError } from '../errors.ts'
import { type HostPlaces, unsafeSource, unsafeTarget } from './mount-rules.ts'
import type { BindMount } from './mounts.ts'
import { isWithin, normalPath, realOf, realStat } from './paths.ts'

/** Folders of the home that programs of the host obey: no workspace is in them. */
const OBEYED = ['.claude', '.gnupg', '.ssh']
/** The same, but people do keep repositories deeper inside. */
const OBEYED_ITSELF = ['.config', '.local', '.local/bin']

/** Where the workspace of a run is, on either side. */
export interface WorkspacePlace {
  readonly mount: BindMount
  /** Where its nodes start: the same as the mount's target. */
  readonly workdir: string
}

/**
 * The workspace of a run: bound with write access at its own real path, or at `workspaceFolder`. Refused is a folder
 * that holds more than a piece of work: the root, the home itself, whatever the record of runs is in, a folder by which
 * the machine or the programs of its user are run.
 *
 * @throws {EgressError} SANDBOX_SPEC_UNSAFE
 */
export function workspaceMount(
  workspace: string,
  workspaceFolder: string | undefined,
  places: HostPlaces,
): WorkspacePlace {
  const source = realStat(workspace)
  const reason =
    source?.isFolder === true
      ? (unsafeSource(source.real, false, places) ?? obeyedReason(source.real, places.home))
      : 'it is not a folder'
  if (source === undefined || reason !== undefined) {
    throw new EgressError(
      'SANDBOX_SPEC_UNSAFE',
      `${workspace} cannot be the workspace of a sandbox: ${reason ?? ''}; run in the folder of one project`,
    )
  }
  const target = normalPath(workspaceFolder ?? source.real)
  const targetReason = unsafeTarget(workspaceFolder ?? source.real)
  if (targetReason !== undefined) {
    const name = workspaceFolder === undefined ? 'workspace' : 'workspace_folder'
    throw new EgressError('SANDBOX_SPEC_UNSAFE', `${name} ${target}: ${targetReason}`)
  }
  return { mount: { source: source.real, target, readOnly: false }, workdir: target }
}

function obeyedReason(real: string, home: string): string | undefined {
  const folderOf = (name: string) => realOf(join(home, name))
  const isObeyed =
    OBEYED.some((name) => isWithin(folderOf(name), real)) ||
    OBEYED_ITSELF.some((name) => folderOf(name) === real)
  return isObeyed ? 'programs of the host do what is written there' : undefined
}
