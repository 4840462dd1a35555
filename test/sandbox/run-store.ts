import { closeSync, openSync, readFileSync, statSync, symlinkSync } from 'node:fs'
import tap from 'tap'
import { readRun } from '../../src/sandbox/run-archive.ts'
import { createRun, otherGuards } from '../../src/sandbox/run-store.ts'
import { FIRST, store } from '../support/run-store.ts'

void tap.test('a run is recorded for its owner alone', async (t) => {
  const host = store(t)
  const run = createRun(host, FIRST)
  t.teardown(() => run.close())
  t.match(run.record.id, /^20260102T030405-[\da-f]{8}$/)
  const folder = `${host.iterionHome}/runs/${run.record.id}`
  t.equal(run.eventsFile, `${folder}/events.jsonl`)
  t.equal(statSync(`${host.iterionHome}/runs`).mode & 0o777, 0o700)
  t.equal(statSync(folder).mode & 0o777, 0o700)
  t.equal(statSync(`${folder}/run.json`).mode & 0o777, 0o600)
  t.strictSame(readRun(host, run.record.id), run.record)
})

void tap.test('whoever reads finds a whole record, however it grows and shrinks', async (t) => {
  const host = store(t)
  const run = createRun(host, FIRST)
  t.teardown(() => run.close())
  for (const error of ['x'.repeat(1_900), 'é'.repeat(1_500), null, 'short']) {
    run.update({ error })
    t.equal(readRun(host, run.record.id).error, error)
  }
  run.update({ error: 'y'.repeat(100_000) })
  t.equal(readRun(host, run.record.id).error?.length, 2_000)
})

void tap.test('a runs folder that is a file or a link is refused', async (t) => {
  const folder = t.testdir({ a: { runs: 'file' }, b: { elsewhere: {} } })
  symlinkSync(`${folder}/b/elsewhere`, `${folder}/b/runs`)
  for (const name of ['a', 'b']) {
    const host = { ...store(t), iterionHome: `${folder}/${name}` }
    t.throws(() => createRun(host, FIRST), { code: 'RUN_STORE_FAILED' }, name)
  }
})

void tap.test('a home that cannot be made is told, at once', async (t) => {
  const { iterionHome: _, ...host } = store(t)
  for (const iterionHome of ['/proc/x', '/proc/x/y/z', '/dev/null/x']) {
    t.throws(() => createRun({ ...host, iterionHome }, FIRST), { code: 'RUN_STORE_FAILED' })
  }
})

void tap.test('another run reads a whole guard, and none of its own', async (t) => {
  const host = store(t)
  const [first, second] = [createRun(host, FIRST), createRun(host, FIRST)]
  t.teardown(() => first.close())
  t.teardown(() => second.close())
  t.strictSame(otherGuards(host, second.record.id), [])
  first.writeGuard('before')
  const open = openSync(`${host.iterionHome}/runs/${first.record.id}/guard.json`, 'r')
  t.teardown(() => closeSync(open))
  first.writeGuard('after')
  t.equal(readFileSync(open, 'utf8'), 'before', 'never the same file, so never half of it')
  t.strictSame(otherGuards(host, second.record.id), ['after'])
  t.strictSame(otherGuards(host, first.record.id), [])
})
