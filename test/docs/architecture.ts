import tap from 'tap'
import { codes, readPage, sectionOf, sourceFiles, tableOf } from '../support/page.ts'

const PAGE = readPage('docs/architecture.md')

void tap.test('every file of door, sandbox and workers has its place in the tables, once', async (t) => {
  for (const [folder, section] of [
    ['door', 'The path of a run'],
    ['sandbox', 'The path of a run'],
    ['workers', 'Several workers'],
  ] as const) {
    const rows = tableOf(sectionOf(PAGE, section), `| files of \`src/${folder}\` | |`)
    const named = rows.flatMap(([files = '']) => codes(files))
    const files = sourceFiles()
      .map(({ name }) => name)
      .filter((name) => name.startsWith(`${folder}/`))
      .map((name) => name.slice(folder.length + 1, -'.ts'.length))
    t.strictSame(named.toSorted(), files.toSorted(), folder)
  }
})

void tap.test('the picture of floors has every folder', async (t) => {
  const picture = /```text\n([\s\S]*?)```/.exec(sectionOf(PAGE, 'Floors'))?.[1] ?? ''
  const folders = new Set(sourceFiles().map(({ name }) => name.split('/')[0]))
  const drawn = picture.match(/[a-z]+/g) ?? []
  t.strictSame(
    drawn.toSorted(),
    [...folders]
      .filter((one) => one !== 'index.ts')
      .map((one) => one?.replace('.ts', ''))
      .toSorted(),
  )
})

void tap.test('every package has its reason', async (t) => {
  const { dependencies } = JSON.parse(readPage('package.json')) as { dependencies: object }
  const rows = tableOf(sectionOf(PAGE, 'Packages'), '| package | for |')
  t.strictSame(rows.map(([name]) => name).toSorted(), Object.keys(dependencies).toSorted())
})
