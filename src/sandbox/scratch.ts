import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { EgressError } from '../errors.ts'
import { StatusFile } from './status-file.ts'

/** What the names of scratch folders start with. The reaper removes nothing else. */
const SCRATCH_PREFIX = 'iterion-egress-'

/** The folder of one run for what lives as long as the run: nothing of it is needed to read the run later. */
export interface Scratch {
  readonly path: string
  /** A folder for the sockets of a door. */
  readonly doorFolder: string
  readonly idFile: string
  readonly status: StatusFile
  /** Writes a file that the caller alone can read, or everybody in a sandbox that it is bound into. */
  write(name: string, text: string, mode: number): string
  /** Writes a file anew, in place, so that whoever has it bound sees it. */
  rewrite(name: string, text: string): void
  remove(): void
}

/** Makes the folder with mode 0700. @throws {EgressError} OPTION_INVALID if `TMPDIR` is no place for it */
export function createScratch(tempRoot: string): Scratch {
  const folder = makeFolder(tempRoot)
  const doorFolder = path.join(folder, 'door')
  mkdirSync(doorFolder, { mode: 0o700 })
  const status = new StatusFile(path.join(folder, 'status'))
  return {
    path: folder,
    doorFolder,
    idFile: path.join(folder, 'cid'),
    status,
    write(name, text, mode) {
      const file = path.join(folder, name)
      writeFileSync(file, text, { mode, flag: 'wx' })
      return file
    },
    rewrite(name, text) {
      writeFileSync(path.join(folder, name), text, { mode: 0o644 })
    },
    remove() {
      status.close()
      removeScratch(folder)
    },
  }
}

function makeFolder(tempRoot: string): string {
  try {
    return mkdtempSync(path.join(tempRoot, SCRATCH_PREFIX))
  } catch (error) {
    const why = (error as Error).message
    throw new EgressError(
      'OPTION_INVALID',
      `no short-lived folder can be made in ${tempRoot} (TMPDIR): ${why}`,
      { cause: error },
    )
  }
}

/** Removes a scratch folder, and refuses anything else. */
export function removeScratch(folder: string): void {
  if (!path.basename(folder).startsWith(SCRATCH_PREFIX)) return
  rmSync(folder, { recursive: true, force: true })
}
