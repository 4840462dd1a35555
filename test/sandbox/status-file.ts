import { execFileSync } from 'node:child_process'
import { appendFileSync, mkdtempSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import tap from 'tap'
import { StatusFile } from '../../src/sandbox/status-file.ts'

void tap.test('nodes write down their pid and their end', async (t) => {
  const file = `${t.testdir()}/status`
  const status = new StatusFile(file)
  t.teardown(() => status.close())
  t.equal(statSync(file).mode & 0o777, 0o666, 'also for another user of the sandbox')
  t.equal(status.pid(0), undefined)
  t.equal(status.exitCode(0), undefined)
  appendFileSync(file, '0 pid 14\n')
  t.equal(status.pid(0), 14)
  appendFileSync(file, '0 exit 0\n1 pid 20\n1 exit 143\n')
  t.equal(status.exitCode(0), 0)
  t.equal(status.exitCode(1), 143)
  t.equal(status.pid(10), undefined, '1 is not 10')
})

void tap.test('what is no number of that kind is none', async (t) => {
  const file = `${t.testdir()}/status`
  const status = new StatusFile(file)
  t.teardown(() => status.close())
  for (const text of ['', '-1', '256', '999', '07', '1 ', 'x', '0x1', '1e2', '١']) {
    appendFileSync(file, `3 exit ${text}\n`)
    t.equal(status.exitCode(3), undefined, text)
  }
  for (const text of ['0', '-1', '12345678', '1; rm', '$(id)']) {
    appendFileSync(file, `3 pid ${text}\n`)
    t.equal(status.pid(3), undefined, text)
  }
})

void tap.test('a file that was filled is read from its end', async (t) => {
  const file = `${t.testdir()}/status`
  const status = new StatusFile(file)
  t.teardown(() => status.close())
  appendFileSync(file, 'x'.repeat(5_000_000))
  appendFileSync(file, '\n0 exit 4\n')
  t.equal(status.exitCode(0), 4)
})

void tap.test('a file as long as files can be says nothing', async (t) => {
  // A file system in memory takes any length.
  const folder = mkdtempSync('/dev/shm/status-')
  t.teardown(() => rmSync(folder, { recursive: true }))
  const status = new StatusFile(`${folder}/status`)
  t.teardown(() => status.close())
  execFileSync('truncate', ['-s', '9223372036854775807', `${folder}/status`])
  t.equal(status.pid(0), undefined)
  t.equal(status.exitCode(0), undefined)
})

void tap.test('another file in its place is not read', async (t) => {
  const file = `${t.testdir()}/status`
  const status = new StatusFile(file)
  rmSync(file)
  writeFileSync(file, '0 exit 0\n')
  t.equal(status.exitCode(0), undefined)
  status.close()
  t.equal(status.exitCode(0), undefined, 'nor after it is closed')
})

void tap.test('a link that is there already is refused', async (t) => {
  const folder = t.testdir({ other: 'mine' })
  symlinkSync(`${folder}/other`, `${folder}/status`)
  t.throws(() => new StatusFile(`${folder}/status`), { code: 'EEXIST' })
})
