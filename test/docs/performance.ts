import { readFileSync } from 'node:fs'
import tap from 'tap'
import { sectionOf, tableOf } from '../support/page.ts'

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

void tap.test('the files of the path are there, and as long as the page says', (t) => {
  const page = read('docs/performance.md')
  const rows = tableOf(sectionOf(page, 'The path'), '| file | lines | what it does |')
  t.ok(rows.length > 10, `${rows.length} files`)
  for (const [file = '', lines = ''] of rows) {
    const length = read(`src/${file.replaceAll('`', '')}.ts`).split('\n').length - 1
    t.equal(Number(lines), Math.round(length / 10) * 10, `${file}: ${length} lines, to the nearest ten`)
  }
  t.end()
})
