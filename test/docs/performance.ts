import { readFileSync } from 'node:fs'
import tap from 'tap'
import { sectionOf, tableOf } from '../support/page.ts'

const read = (file: string) => readFileSync(new URL(`../../${file}`, import.meta.url), 'utf8')

interface Budget {
  readonly what: string
  readonly peer: string
  readonly unit?: string
  readonly most?: number
  readonly least?: number
}

void tap.test('the budgets of the page are those that the benchmark judges by', async (t) => {
  const { BUDGETS, OWN_BUDGETS, LEAST_BUDGETS } = (await import(
    new URL('../bench/proxy/report.js', import.meta.url).href
  )) as Readonly<Record<'BUDGETS' | 'OWN_BUDGETS' | 'LEAST_BUDGETS', readonly Budget[]>>
  const section = /## Budgets\n([^]*?)\n## /.exec(read('docs/performance.md'))?.[1] ?? ''
  const rows = [...section.matchAll(/^\| (.+) \| (.+) \| ([\d.]+(?: \w+)?) \|$/gm)].map((row) => row.slice(1))
  const judged = [...BUDGETS, ...OWN_BUDGETS, ...LEAST_BUDGETS]
    .filter(({ most, least }) => (most ?? least) !== undefined)
    .map(({ what, peer, unit, most, least }) => [
      what,
      peer,
      [most ?? least, unit].filter((one) => one !== undefined).join(' '),
    ])
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

void tap.test('what failed, or was not measured, meets no budget', async (t) => {
  const { judge, unjudged } = (await import(
    new URL('../bench/proxy/report.js', import.meta.url).href
  )) as {
    judge: (result: object) => { budgets: { against: string; verdict: string }[] }
    unjudged: (budgets: object) => { peer: string }[]
  }
  const of = (failed: number) => [{ cost: 1, p50: 1, p99: 1, rate: 1, failed }]
  const verdicts = (ours: number, squid: number) => {
    const peers = { ours: of(ours), squid: of(squid) }
    const { budgets } = judge({ figures: [{ key: 'connect-name', direct: [], peers }], idle: [] })
    const missing = unjudged(budgets).map(({ peer }) => peer)
    return {
      squid: budgets.find(({ against, verdict }) => against === 'squid' && verdict !== '')?.verdict,
      isChainMissing: missing.includes('proxy-chain'),
    }
  }
  t.strictSame(verdicts(0, 0), { squid: 'ok', isChainMissing: true })
  t.strictSame(verdicts(1, 0), { squid: 'FAILED', isChainMissing: true })
  t.strictSame(verdicts(0, 1), { squid: 'FAILED', isChainMissing: true })
})
