import { readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import tap from 'tap'
import type { RunRecord } from '../../src/sandbox/run-record.ts'
import {
  isDriven,
  listActiveRuns,
  listRuns,
  readEvents,
  readRun,
  reopenRun,
  settleRun,
  takeGuard,
} from '../../src/sandbox/run-archive.ts'
import { createRun } from '../../src/sandbox/run-store.ts'
import { FIRST, OWNER, store } from '../support/run-store.ts'

void tap.test('an id is never a path', async (t) => {
  const host = store(t)
  createRun(host, FIRST).close()
  for (const id of ['', '.', '..', '../../etc', 'x/../y', '20260102T030405-00000000/', 'a\0b']) {
    t.throws(() => readRun(host, id), { code: 'RUN_UNKNOWN' }, id)
    t.throws(() => reopenRun(host, id), { code: 'RUN_UNKNOWN' }, id)
  }
  t.throws(() => readRun(host, '20260102T030405-00000000'), { code: 'RUN_UNKNOWN' })
})

void tap.test('links are not followed', async (t) => {
  const host = store(t)
  const run = createRun(host, FIRST)
  const { id } = run.record
  run.close()
  const folder = `${host.iterionHome}/runs`
  symlinkSync(`${folder}/${id}`, `${folder}/20260102T030405-11111111`)
  t.equal(listRuns(host).length, 2, 'a linked folder is what it leads to')
  symlinkSync('/etc/passwd', `${folder}/${id}/events.jsonl`)
  t.equal(readEvents(host, id), '')
  const linked = { ...host, iterionHome: `${t.testdir()}/other` }
  symlinkSync(host.iterionHome, linked.iterionHome)
  createRun(linked, FIRST).close()
  t.equal(listRuns(host).length, 3, 'the home itself may be a link of its owner')
})

void tap.test('the latest run comes first, and what is no run is passed over', async (t) => {
  const host = store(t)
  t.strictSame(listRuns(host), [])
  const ids = [5, 3, 9].map((hour) => {
    const run = createRun({ ...host, now: () => Date.UTC(2026, 0, 1, hour) }, FIRST)
    run.close()
    return run.record.id
  })
  writeFileSync(`${host.iterionHome}/runs/note`, '')
  writeFileSync(`${host.iterionHome}/runs/${ids[0]}/run.json`, '{')
  t.strictSame(
    listRuns(host).map(({ id }) => id),
    [ids[2], ids[1]],
  )
  t.throws(() => readRun(host, ids[0] ?? ''), { code: 'RUN_STORE_FAILED' })
})

void tap.test(
  'only a run that failed half way, or that nobody drives, is taken up again',
  async (t) => {
    const host = store(t)
    const states: [Partial<RunRecord>, boolean][] = [
      [{ status: 'failed_resumable' }, true],
      [{ status: 'failed' }, false],
      [{ status: 'finished' }, false],
      [{ status: 'cancelled' }, false],
      [{ status: 'running' }, true],
      [{ status: 'running', owner: { ...OWNER, bootId: 'another' } }, false],
    ]
    for (const [change, isTaken] of states) {
      const run = createRun(host, FIRST)
      run.update(change)
      run.close()
      const { id } = run.record
      if (!isTaken) {
        t.throws(() => reopenRun(host, id), { code: 'RUN_NOT_RESUMABLE' }, JSON.stringify(change))
        continue
      }
      const again = reopenRun(host, id)
      t.match(readRun(host, id), { status: 'running', attempt: 2, owner: OWNER })
      again.close()
    }
  },
)

void tap.test('two cannot take up one run', async (t) => {
  const host = store(t)
  const run = createRun(host, FIRST)
  run.update({ status: 'failed_resumable' })
  run.close()
  const { id } = run.record
  const taken = `${host.iterionHome}/runs/${id}/attempt-2`
  writeFileSync(taken, JSON.stringify({ ...OWNER, bootId: 'another' }))
  t.throws(() => reopenRun(host, id), { code: 'RUN_NOT_RESUMABLE', message: /somebody else/ })
  writeFileSync(taken, '')
  t.throws(() => reopenRun(host, id), { code: 'RUN_NOT_RESUMABLE', message: /somebody else/ })
  // Whoever took it is gone: the next number is free.
  writeFileSync(taken, JSON.stringify(OWNER))
  const third = reopenRun(host, id)
  t.equal(third.record.attempt, 3)
  t.ok(isDriven({ ...third.record, owner: { ...OWNER, bootId: 'another' } }, OWNER))
  third.close()
})

void tap.test('the events go on where the last whole line ended', async (t) => {
  for (const [text, seq, left] of [
    ['{"seq":1}\n{"seq":2}\n', 2, '{"seq":1}\n{"seq":2}\n'],
    ['{"seq":1}\n{"seq":2}\n{"se', 2, '{"seq":1}\n{"seq":2}\n'],
    ['{"se', 0, ''],
    ['', 0, ''],
    ['{"seq":7}\n', 7, '{"seq":7}\n'],
  ] as const) {
    const host = store(t)
    const run = createRun(host, { ...FIRST, status: 'failed_resumable' })
    run.close()
    writeFileSync(run.eventsFile, text)
    const again = reopenRun(host, run.record.id)
    t.equal(again.lastSeq, seq, text)
    t.equal(readFileSync(run.eventsFile, 'utf8'), left, text)
    again.close()
  }
})

void tap.test('a run is settled by somebody else', async (t) => {
  const host = store(t)
  const run = createRun(host, FIRST)
  run.close()
  settleRun(host, run.record.id, { status: 'failed_resumable', failure_code: 'RUN_ORPHANED' })
  t.match(readRun(host, run.record.id), { status: 'failed_resumable', name: 'demo' })
})

void tap.test('what is driven, or left something behind, is marked', async (t) => {
  const host = store(t)
  const clean = createRun(host, FIRST)
  const leaving = createRun(host, { ...FIRST, scratch: '/s' })
  const killed = createRun(host, FIRST)
  clean.update({ status: 'finished' })
  leaving.update({ status: 'finished' })
  clean.close()
  leaving.close()
  killed.close()
  const ids = () => new Set(listActiveRuns(host).map(({ id }) => id))
  t.strictSame(ids(), new Set([leaving.record.id, killed.record.id]))
  const others = listActiveRuns(host, killed.record.id)
  t.strictSame(
    others.map(({ id }) => id),
    [leaving.record.id],
    'but one that is named',
  )
  settleRun(host, killed.record.id, { status: 'failed_resumable' })
  settleRun(host, leaving.record.id, { scratch: null })
  t.strictSame(ids(), new Set())
  t.equal(listRuns(host).length, 3)
  reopenRun(host, killed.record.id).close()
  t.strictSame(ids(), new Set([killed.record.id]), 'taken up again, it is marked again')
})

void tap.test('what the reaper has to do is taken once', async (t) => {
  const host = store(t)
  const run = createRun(host, FIRST)
  run.writeGuard('one')
  run.writeGuard('two')
  t.equal(takeGuard(host, run.record.id), 'two')
  t.equal(takeGuard(host, run.record.id), undefined)
  run.writeGuard('three')
  run.removeGuard()
  t.equal(takeGuard(host, run.record.id), undefined)
  run.close()
})
