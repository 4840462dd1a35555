import { accessSync, closeSync, constants, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'

/** Makes empty files and folders of this machine, so that something can be bound over them. */
export interface Maker {
  /** @throws {Error} if it cannot be made, or something is there */
  file(path: string): void
  /** @throws {Error} the same */
  folder(path: string): void
  /** One for the caller alone. @throws {Error} the same */
  privateFolder(path: string): void
}

/** Makes them. */
export const realMaker: Maker = {
  file(path) {
    const { O_CREAT, O_EXCL, O_NOFOLLOW, O_WRONLY } = constants
    closeSync(openSync(path, O_CREAT | O_EXCL | O_NOFOLLOW | O_WRONLY, 0o644))
  },
  folder: (path) => mkdirSync(path),
  privateFolder: (path) => mkdirSync(path, { mode: 0o700 }),
}

/**
 * Makes nothing, and fails where nothing could be made.
 *
 * @param folders what a run would have made before
 */
export function pretendingMaker(folders: readonly string[] = []): Maker {
  const made = new Set(folders)
  const make = (path: string) => {
    const folder = dirname(path)
    if (!made.has(folder)) accessSync(folder, constants.W_OK | constants.X_OK)
    made.add(path)
  }
  return { file: make, folder: make, privateFolder: make }
}
