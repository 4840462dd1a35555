import { missingProgram, sealRemedy } from '../door/seal-remedy.ts'
import { SEAL_ENV } from '../door/seal-words.ts'
import { findOnPath } from './drivers/find-runtime.ts'
import type { SandboxHost } from './host.ts'

/** Programs that make a seal. */
const PROGRAMS = ['unshare', 'setpriv', 'sh', 'setsid', 'mkdir', 'ip', 'mount']

/**
 * Why the nodes of a run cannot be sealed as processes of this machine, as far as that is seen without trying; undefined:
 * nothing is.
 *
 * Root's cannot: they would be root on the file system of this machine, and root walks out by it; as `nobody` they could not
 * write the workspace.
 *
 * @param searchPath the folders of the programs, as in `PATH`. Default: those of the system
 */
export function whyNoSeal(
  host: Pick<SandboxHost, 'user'>,
  searchPath: string = SEAL_ENV.PATH,
): string | undefined {
  if (host.user.uid === 0) {
    return 'root is not kept in by a process seal, since it can walk out by the files of this machine; start the run as another user'
  }
  const place = { env: { PATH: searchPath }, cwd: '/' }
  const missing = PROGRAMS.find((name) => findOnPath(name, place) === undefined)
  const why = missing === undefined ? sealRemedy('') : missingProgram(missing)
  return why === undefined ? undefined : `a process seal is not possible: ${why}`
}
