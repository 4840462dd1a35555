import { missingProgram, sealRemedy } from '../door/seal-remedy.ts'
import { findOnPath, findSystemProgram } from './drivers/find-runtime.ts'
import type { SandboxHost } from './host.ts'

/** Programs that start a seal, and those that set it up. */
const STARTING = ['unshare', 'setpriv', 'sh']
const SETTING_UP = ['ip', 'mount']

/**
 * Why the nodes of a run cannot be sealed as processes of this machine, as far as that is seen without trying; undefined:
 * nothing is.
 *
 * Root's cannot: they would be root on the file system of this machine, and root walks out by it; as `nobody` they could not
 * write the workspace.
 */
export function whyNoSeal(host: SandboxHost): string | undefined {
  if (host.user.uid === 0) {
    return 'root is not kept in by a process seal, since it can walk out by the files of this machine; start the run as another user'
  }
  const missing =
    STARTING.find((name) => findOnPath(name, host) === undefined) ??
    SETTING_UP.find((name) => findSystemProgram(name, host) === undefined)
  const why = missing === undefined ? sealRemedy('') : missingProgram(missing)
  return why === undefined ? undefined : `a process seal is not possible: ${why}`
}
