import { closeSync, constants, fchmodSync, fstatSync, openSync, readSync } from 'node:fs'

/** Where the file is inside the sandbox. */
export const STATUS_TARGET = '/run/iterion-egress/status'

/** What is read of it, in bytes, from its end: what is in it comes from the sandbox. */
const MAX_READ = 64 * 1024

/**
 * The file that nodes write their pid and exit code into. It is bound into the sandbox alone, without its folder, and
 * read here through the descriptor that made it: nothing that the sandbox does makes it another file.
 */
export class StatusFile {
  readonly path: string
  readonly #descriptor: number
  #isOpen = true

  /** Makes the file, for every user of the sandbox to write. Its folder is closed to other users of this machine. */
  constructor(path: string) {
    const { O_CREAT, O_EXCL, O_NOFOLLOW, O_RDWR } = constants
    this.path = path
    this.#descriptor = openSync(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600)
    fchmodSync(this.#descriptor, 0o666)
  }

  /** The pid of a node inside the sandbox, once it runs. */
  pid(index: number): number | undefined {
    return this.#last(index, 'pid', /^[1-9]\d{0,6}$/)
  }

  /** How a node ended, once it has. */
  exitCode(index: number): number | undefined {
    return this.#last(index, 'exit', /^(?:\d|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])$/)
  }

  close(): void {
    if (this.#isOpen) closeSync(this.#descriptor)
    this.#isOpen = false
  }

  #last(index: number, word: string, form: RegExp): number | undefined {
    const start = `${index} ${word} `
    const line = this.#tail()
      .split('\n')
      .findLast((one) => one.startsWith(start))
    const value = line?.slice(start.length) ?? ''
    return form.test(value) ? Number(value) : undefined
  }

  /** Empty for what cannot be read: the sandbox may have made the file as long as a file can be. */
  #tail(): string {
    if (!this.#isOpen) return ''
    try {
      const { size } = fstatSync(this.#descriptor)
      const bytes = Buffer.alloc(Math.min(size, MAX_READ))
      const read = readSync(this.#descriptor, bytes, 0, bytes.length, size - bytes.length)
      return bytes.toString('latin1', 0, read)
    } catch {
      return ''
    }
  }
}
