import { existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import tap from 'tap'
import { createScratch, removeScratch } from '../../src/sandbox/scratch.ts'

void tap.test('a folder for its owner alone, gone when it is removed', async (t) => {
  const scratch = createScratch(t.testdir())
  t.equal(statSync(scratch.path).mode & 0o777, 0o700)
  t.equal(statSync(scratch.doorFolder).mode & 0o777, 0o700)
  const file = scratch.write('env', 'A=1\n', 0o600)
  t.equal(readFileSync(file, 'utf8'), 'A=1\n')
  t.equal(statSync(file).mode & 0o777, 0o600)
  t.throws(() => scratch.write('env', 'B=2\n', 0o600), { code: 'EEXIST' })
  scratch.remove()
  t.notOk(existsSync(scratch.path))
  scratch.remove()
})

void tap.test('nothing else is removed by that way', async (t) => {
  const folder = t.testdir({ home: { file: 'x' } })
  removeScratch(`${folder}/home`)
  t.ok(existsSync(`${folder}/home/file`))
  mkdirSync(`${folder}/iterion-egress-abc`)
  writeFileSync(`${folder}/iterion-egress-abc/file`, '')
  removeScratch(`${folder}/iterion-egress-abc`)
  t.notOk(existsSync(`${folder}/iterion-egress-abc`))
})
