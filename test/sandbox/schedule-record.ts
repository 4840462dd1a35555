import { chmodSync, readFileSync, statSync } from 'node:fs'
import tap from 'tap'
import type { RunRecord } from '../../src/sandbox/run-record.ts'
import {
  checkScheduleRecord,
  readScheduleRecord,
  writeScheduleRecord,
} from '../../src/sandbox/schedule-record.ts'

const RUN = {
  id: '20260101T000000-00000000',
  status: 'failed',
  failure_code: 'SANDBOX_DRIVER_UNAVAILABLE',
  updated_at: '2026-01-01T00:00:00.000Z',
} as RunRecord

void tap.test('the outcome goes in, and what else is there stays', async (t) => {
  const file = `${t.testdir({ 'schedule.json': '{"cron":"@daily","last_run_error_code":"X"}' })}/schedule.json`
  writeScheduleRecord(file, RUN)
  t.strictSame(JSON.parse(readFileSync(file, 'utf8')), {
    cron: '@daily',
    last_run_error_code: 'SANDBOX_DRIVER_UNAVAILABLE',
    last_run_id: RUN.id,
    last_run_status: 'failed',
    last_run_at: RUN.updated_at,
  })
  writeScheduleRecord(file, { ...RUN, failure_code: null, status: 'finished' })
  t.match(JSON.parse(readFileSync(file, 'utf8')), { last_run_error_code: null })
})

void tap.test('a new file is made; one that is something else is refused', async (t) => {
  const folder = t.testdir({ list: '[]', text: 'no json' })
  writeScheduleRecord(`${folder}/new.json`, RUN)
  t.match(readScheduleRecord(`${folder}/new.json`), { last_run_status: 'failed' })
  for (const name of ['list', 'text', '.']) {
    t.throws(() => readScheduleRecord(`${folder}/${name}`), { code: 'FILE_UNREADABLE' }, name)
  }
  t.throws(() => writeScheduleRecord(`${folder}/no/where.json`, RUN), { code: 'FILE_UNREADABLE' })
})

void tap.test('it stays the file of its owner', async (t) => {
  const file = `${t.testdir({ 'schedule.json': '{}' })}/schedule.json`
  chmodSync(file, 0o664)
  writeScheduleRecord(file, RUN)
  t.equal(statSync(file).mode & 0o777, 0o664)
})

void tap.test('a place that cannot be written is known before', async (t) => {
  const folder = t.testdir({ 'a.json': '{}', 'b.json': '[]' })
  checkScheduleRecord(`${folder}/a.json`)
  checkScheduleRecord(`${folder}/new.json`)
  for (const name of ['b.json', 'no/where.json', 'a.json/x']) {
    t.throws(() => checkScheduleRecord(`${folder}/${name}`), { code: 'FILE_UNREADABLE' }, name)
  }
})
