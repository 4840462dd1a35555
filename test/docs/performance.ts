import { readFileSync } from 'node:fs'
import tap from 'tap'

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')

interface Budget {
  readonly what: string
  readonly peer: string
  readonly most?: number
  readonly least?: number
}

void tap.test('the budgets of the page are those that the benchmark judges by', async (t) => {
  const { BUDGETS, OWN_BUDGETS, LEAST_BUDGETS } = (await import(
    new URL('../bench/proxy/report.js', import.meta.url).href
  )) as Readonly<Record<'BUDGETS' | 'OWN_BUDGETS' | 'LEAST_BUDGETS', readonly Budget[]>>
  const section = /## Budgets\n([^]*?)\n## /.exec(read('docs/performance.md'))?.[1] ?? ''
  const rows = [...section.matchAll(/^\| (.+) \| (.+) \| ([\d.]+) \|$/gm)].map((row) => row.slice(1))
  const judged = [...BUDGETS, ...OWN_BUDGETS, ...LEAST_BUDGETS]
    .map(({ what, peer, most, least }) => [what, peer, most ?? least] as const)
    .filter(([, , bound]) => bound !== undefined)
    .map(([what, peer, bound]) => [what, peer, String(bound)])
  t.strictSame(rows, judged)
})

void tap.test('the page and the guide for contributors name every benchmark', async (t) => {
  for (const name of ['policy', 'proxy', 'run', 'check']) {
    for (const file of ['docs/performance.md', 'CONTRIBUTING.md']) {
      t.match(read(file), `npm run bench -- ${name}`, `${name} in ${file}`)
    }
  }
})
