import { existsSync, statSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { pretendingMaker, realMaker } from '../../src/sandbox/maker.ts'

void tap.test('the real one makes, the other one only says whether it could', async (t) => {
  const root = t.testdir({})
  const pretending = pretendingMaker()
  for (const kind of ['folder', 'privateFolder', 'file'] as const) {
    pretending[kind](path.join(root, kind))
    t.notOk(existsSync(path.join(root, kind)), kind)
    realMaker[kind](path.join(root, kind))
    t.equal(statSync(path.join(root, kind)).isFile(), kind === 'file')
    t.throws(() => realMaker[kind](path.join(root, kind)), { code: 'EEXIST' })
  }
  t.equal(statSync(path.join(root, 'privateFolder')).mode & 0o777, 0o700)
  t.doesNotThrow(() => {
    pretending.folder(path.join(root, 'info'))
    pretending.file(path.join(root, 'info', 'attributes'))
  }, 'in what it would have made')
  t.throws(() => pretending.file(path.join(root, 'nowhere', 'x')), { code: 'ENOENT' })
  t.throws(() => realMaker.file(path.join(root, 'nowhere', 'x')), { code: 'ENOENT' })
})
