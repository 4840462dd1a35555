import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Test } from 'tap'
import { PYTHON } from './program.ts'
import type { Service } from './upstream.ts'

/** The file that {@link wheelIndex} has. */
export const WHEEL = 'small_thing-1.2.3-py3-none-any.whl'
const MAKE_WHEEL = fileURLToPath(new URL('./make_wheel.py', import.meta.url))

/** An index of Python with one wheel, `small-thing`. */
export function wheelIndex(t: Test): { service: Service; wheel: Buffer } {
  const folder = mkdtempSync(join(tmpdir(), 'egress-pip-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  execFileSync(PYTHON, ['-I', '-B', MAKE_WHEEL, folder], { timeout: 30_000 })
  const wheel = readFileSync(join(folder, WHEEL))
  const digest = createHash('sha256').update(wheel).digest('hex')
  const service: Service = {
    request: ({ url }, response) => {
      if (url === '/simple/small-thing/') {
        response.setHeader('Content-Type', 'text/html')
        const link = `<a href="/files/${WHEEL}#sha256=${digest}">${WHEEL}</a>`
        response.end(`<!DOCTYPE html><html><body>${link}</body></html>`)
      } else if (url === `/files/${WHEEL}`) {
        response.end(wheel)
      } else {
        response.statusCode = 404
        response.end()
      }
    },
  }
  return { service, wheel }
}
