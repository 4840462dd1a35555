import { readFileSync } from 'node:fs'
import tap from 'tap'
import type { DenyReason } from '../../src/policy/decide.ts'
import { DEFAULT_LIMITS } from '../../src/proxy/limits.ts'
import { refusal } from '../../src/proxy/refuse.ts'

const text = readFileSync(new URL('../../docs/proxy.md', import.meta.url), 'utf8')

void tap.test('the table of limits in docs/proxy.md has every limit with its default', async (t) => {
  const rows = [...text.matchAll(/^\| `(\w+)` \| (\d+) \|/gm)].map(([, name, value]) => [name, Number(value)])
  t.strictSame(Object.fromEntries(rows), { ...DEFAULT_LIMITS })
})

void tap.test('the table of statuses in docs/proxy.md has the status of every reason', async (t) => {
  const policyPage = readFileSync(new URL('../../docs/policy.md', import.meta.url), 'utf8')
  const section = /^## Reasons$([\s\S]*?)^## /m.exec(policyPage)?.[1] ?? ''
  const reasons = [...section.matchAll(/^\| `([\w-]+)` \|/gm)].map(([, reason]) => reason as DenyReason)
  t.equal(reasons.length, 19)
  const rows = [...text.matchAll(/^\| (\d{3})[\d, ]* \| (.*) \|$/gm)]
  for (const reason of reasons) {
    const { status } = refusal({ reason, detail: '', target: undefined, via: 'connect' })
    const row = rows.find(([, code]) => Number(code) === status)
    t.ok(row?.[2]?.includes(`\`${reason}\``), `${reason} is ${status}`)
  }
})
