import tap from 'tap'
import { CHECK_NAMES } from '../../src/sandbox/doctor-check.ts'
import { BACKENDS, nodeProgram, takesTask } from '../../src/sandbox/backend.ts'
import { codes, readPage, sectionOf, tableOf } from '../support/page.ts'

const PAGE = readPage('docs/sandbox.md')

void tap.test('every check of doctor has its row, in order', async (t) => {
  const rows = tableOf(sectionOf(PAGE, 'Doctor'), '| check | what is looked at |')
  t.strictSame(
    rows.flatMap(([names = '']) => codes(names)),
    CHECK_NAMES,
  )
})

void tap.test('every backend has its row, with what a text becomes', async (t) => {
  const rows = tableOf(sectionOf(PAGE, 'Backends'), '| backend | a text as `command` is | a list is |')
  t.strictSame(
    rows.flatMap(([name = '']) => codes(name)),
    BACKENDS,
  )
  const site = { iterion: 'iterion', workdir: '/w' }
  for (const [index, backend] of BACKENDS.entries()) {
    const { words } = nodeProgram({ id: 'a', backend, command: 'TEXT' }, site)
    const [, text = '', list = ''] = rows[index] ?? []
    t.ok(codes(text).includes(words.join(' ')), backend)
    t.equal(text.startsWith('a task'), takesTask(backend), backend)
    t.equal(list, backend === 'claw' ? 'refused' : 'its words')
  }
})
