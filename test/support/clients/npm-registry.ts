import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import type { Service } from './upstream.ts'

/** A registry of npm with one package, `small-thing`, that says where it came from. */
export function npmRegistry(t: Test): Service {
  const folder = mkdtempSync(join(tmpdir(), 'egress-npm-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  const manifest = { name: 'small-thing', version: '1.2.3', main: 'index.js' }
  mkdirSync(join(folder, 'package'))
  writeFileSync(join(folder, 'package/package.json'), JSON.stringify(manifest))
  writeFileSync(join(folder, 'package/index.js'), "module.exports = 'came through the proxy'\n")
  execFileSync('tar', ['-czf', 'it.tgz', 'package'], { cwd: folder, timeout: 20_000 })
  const archive = readFileSync(join(folder, 'it.tgz'))
  const integrity = `sha512-${createHash('sha512').update(archive).digest('base64')}`
  return {
    request: ({ url, headers }, response) => {
      if (url === '/small-thing') {
        const tarball = `https://${headers.host ?? ''}/small-thing/-/small-thing-1.2.3.tgz`
        const version = { ...manifest, dist: { tarball, integrity } }
        response.setHeader('Content-Type', 'application/json')
        response.end(
          JSON.stringify({
            name: manifest.name,
            'dist-tags': { latest: manifest.version },
            versions: { [manifest.version]: version },
          }),
        )
      } else if (url === '/small-thing/-/small-thing-1.2.3.tgz') {
        response.end(archive)
      } else {
        response.statusCode = 404
        response.end('{}')
      }
    },
  }
}
