import { readdirSync, readFileSync } from 'node:fs'

const ROOT = new URL('../../', import.meta.url)

/** The text of a file of this project. */
export function readPage(file: string): string {
  return readFileSync(new URL(file, ROOT), 'utf8')
}

/** The text under a heading of the second level, up to the next one. */
export function sectionOf(page: string, heading: string): string {
  const start = page.indexOf(`\n## ${heading}\n`)
  if (start === -1) throw new Error(`no section ${heading}`)
  return page.slice(start, page.indexOf('\n## ', start + 1) >>> 0).trimEnd()
}

/** The cells of the table with this head. */
export function tableOf(text: string, head: string): string[][] {
  const start = text.indexOf(`${head}\n`)
  if (start === -1) throw new Error(`no table ${head}`)
  const rows = text.slice(start).split('\n\n')[0]?.split('\n').slice(2) ?? []
  return rows.map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  )
}

/** What stands in backticks. */
export function codes(text: string): string[] {
  return [...text.matchAll(/`([^`]+)`/g)].map(([, code = '']) => code)
}

/** The anchors of all headings of a page. */
export function headings(page: string): string[] {
  return [...page.matchAll(/^#+ (.*)$/gm)].map(([, text = '']) =>
    text
      .toLowerCase()
      .replace(/[^\w\d -]/g, '')
      .replaceAll(' ', '-'),
  )
}

/** Every source file, by its path below src. */
export function sourceFiles(): { readonly name: string; readonly text: string }[] {
  return readdirSync(new URL('src/', ROOT), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith('.ts'))
    .map((name) => ({ name: name.replaceAll('\\', '/'), text: readPage(`src/${name}`) }))
}
