import { spawn } from 'node:child_process'
import { once } from 'node:events'
import tap from 'tap'
import { judgeProcess, readIdentity } from '../../src/sandbox/process-identity.ts'

void tap.test('a process is alive until it ends', async (t) => {
  const own = readIdentity(process.pid)
  t.equal(judgeProcess(own, own), 'alive')
  const child = spawn('sleep', ['60'])
  await once(child, 'spawn')
  const other = readIdentity(child.pid ?? 0)
  t.equal(judgeProcess(other, own), 'alive')
  child.kill('SIGKILL')
  await once(child, 'exit')
  t.equal(judgeProcess(other, own), 'gone')
})

void tap.test('a pid that was given away again is another process', async (t) => {
  const own = readIdentity(process.pid)
  t.equal(judgeProcess({ ...own, startTime: '1' }, own), 'gone')
  t.equal(
    judgeProcess({ ...own, pid: 12 }, own, () => undefined),
    'gone',
  )
})

void tap.test('another boot and another pid namespace cannot be judged', async (t) => {
  const own = readIdentity(process.pid)
  t.equal(judgeProcess({ ...own, bootId: 'other', startTime: '1' }, own), 'unknown')
  t.equal(judgeProcess({ ...own, pidNamespace: 'pid:[1]', startTime: '1' }, own), 'unknown')
})

void tap.test('a name with blanks and brackets does not shift the fields', async (t) => {
  const child = spawn('bash', ['-c', `exec -a ') S 1 1' sleep 60`])
  await once(child, 'spawn')
  t.match(readIdentity(child.pid ?? 0).startTime, /^\d{3,}$/)
  child.kill('SIGKILL')
  await once(child, 'exit')
})
