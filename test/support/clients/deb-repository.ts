import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Test } from 'tap'
import { PROGRAM_PATH } from './program.ts'
import { runClient } from './run-client.ts'
import type { Service } from './upstream.ts'

const CONTROL = `Package: small-thing
Version: 1.2.3
Architecture: all
Maintainer: tester <tester@allowed.test>
Description: one file
`

/** A flat repository of Debian packages with one of them, `small-thing`. */
export async function debRepository(t: Test): Promise<Service> {
  const folder = mkdtempSync(join(tmpdir(), 'egress-deb-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  put(join(folder, 'tree/DEBIAN/control'), CONTROL)
  put(join(folder, 'tree/usr/share/small-thing/origin'), 'came through the proxy\n')
  const args = ['--root-owner-group', '-Zgzip', '--build', 'tree', 'small-thing.deb']
  const env = { PATH: PROGRAM_PATH }
  const built = await runClient('dpkg-deb', args, { env, cwd: folder })
  if (built.code !== 0) throw new Error(built.output)
  const archive = readFileSync(join(folder, 'small-thing.deb'))
  const size = `Size: ${archive.length}\nSHA256: ${sha256(archive)}\n`
  const packages = `${CONTROL}Filename: ./small-thing.deb\n${size}`
  const listed = ` ${sha256(packages)} ${Buffer.byteLength(packages)} Packages\n`
  const release = `Date: ${new Date().toUTCString()}\nSHA256:\n${listed}`
  const files: Record<string, string | Buffer> = {
    '/./Release': release,
    '/./Packages': packages,
    '/./small-thing.deb': archive,
  }
  return {
    request: ({ url = '' }, response) => {
      const file = files[url] ?? files[url.replace(/^\//, '/./')]
      response.statusCode = file === undefined ? 404 : 200
      response.end(file)
    },
  }
}

/** Writes a file, and makes the folders above it. */
export function put(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

function sha256(data: string | Buffer): string {
  return createHash('sha256').update(data).digest('hex')
}
