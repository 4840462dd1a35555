import { readFileSync } from 'node:fs'
import t from 'tap'
import { DEFAULT_LIMITS } from '../../src/proxy/limits.ts'

const text = readFileSync(new URL('../../docs/proxy.md', import.meta.url), 'utf8')

t.test('the table of limits in docs/proxy.md has every limit with its default', async (t) => {
  const rows = [...text.matchAll(/^\| `(\w+)` \| (\d+) \|/gm)].map(([, name, value]) => [name, Number(value)])
  t.strictSame(Object.fromEntries(rows), { ...DEFAULT_LIMITS })
})
