import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import tap from 'tap'
import { pause } from '../support/proxy.ts'
import { waitFor } from '../support/serve-process.ts'
import { NO_WRAP, openWrapDesk, wrapWords } from '../support/wrap.ts'

// Whom a signal reaches, and what it does there.

const POLICY = ['--mode', 'allowlist']

void tap.test('a signal to the whole group stays inside', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  const script = '"$@"; echo "code $?"'
  const killed = ['/usr/bin/python3', '-c', 'import os; os.kill(0, 9)']
  const words = ['-c', script, 'bash', ...wrapWords(desk, POLICY, killed)]
  const options = { encoding: 'utf8', cwd: desk.folder, detached: true } as const
  const { stdout } = spawnSync('/bin/bash', words, {
    ...options,
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.equal(stdout, 'code 137\n')
})

void tap.test('Ctrl-C is for all that belong to the command', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  const run = desk.start('user', POLICY, ['sh', '-c', 'echo up; sleep 63; echo after'])
  await waitFor(() => run.stdout() || undefined)
  const start = Date.now()
  run.child.kill('SIGINT')
  t.match(await run.done, { code: 130, stdout: 'up\n' })
  t.ok(Date.now() - start < 20_000)
})

void tap.test('no signal opens a debugger', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  const run = desk.start('root', POLICY, ['sh', '-c', 'echo up; read -r _; echo on'], {
    stdin: 'pipe',
  })
  await waitFor(() => run.stdout() || undefined)
  const programs = spawnSync('pgrep', ['-P', String(run.child.pid)], { encoding: 'utf8' })
  const pids = [run.child.pid ?? 0, ...programs.stdout.trim().split('\n').map(Number)]
  t.ok(pids.length > 1, 'the helper too')
  for (const pid of pids) process.kill(pid, 'SIGUSR1')
  await pause(300)
  run.child.stdin?.end('go\n')
  t.strictSame(await run.done, { code: 0, stdout: 'up\non\n', stderr: '' })
  const words = ['-u', 'NODE_OPTIONS', process.execPath, desk.program, 'serve', ...POLICY]
  const serve = spawn('/usr/bin/env', [...words, '--listen', '127.0.0.1:0'])
  let said = ''
  for (const stream of [serve.stdout, serve.stderr]) {
    stream.on('data', (text: Buffer) => (said += text.toString()))
  }
  await waitFor(() => (said.includes('listens on') ? true : undefined))
  serve.kill('SIGUSR1')
  await pause(300)
  serve.kill('SIGTERM')
  await once(serve, 'close')
  t.match(said, 'end it')
  t.notMatch(said, /debugger/i)
})

void tap.test('what is stopped ends with its parent all the same', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  const sleep = `sleep 62.${process.pid}`
  const found = () => spawnSync('pgrep', ['-f', `^${sleep}`], { encoding: 'utf8' }).stdout.trim()
  const [first, ...words] = wrapWords(desk, POLICY, ['sh', '-c', `exec ${sleep}`])
  const child = spawn(first, words, { cwd: desk.folder, stdio: 'ignore' })
  await waitFor(() => found() || undefined)
  const descendants = (pid: number): number[] => {
    const list = spawnSync('pgrep', ['-P', String(pid)], { encoding: 'utf8' }).stdout.trim()
    const own = list === '' ? [] : list.split('\n').map(Number)
    return [...own, ...own.flatMap(descendants)]
  }
  const all = descendants(child.pid ?? 0)
  t.ok(all.length >= 4)
  for (const pid of [child.pid ?? 0, ...all]) process.kill(pid, 'SIGSTOP')
  await pause(50)
  child.kill('SIGKILL')
  await waitFor(() => (found() === '' ? true : undefined))
  t.equal(found(), '')
})
