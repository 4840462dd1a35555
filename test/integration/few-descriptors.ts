import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import path from 'node:path'
import tap from 'tap'

const BIN = new URL('../../bin/iterion-egress.js', import.meta.url).pathname
const DESCRIPTORS = 256
const CLIENTS = 600
const DEADLINE_MS = 20_000

void tap.test('a process with few descriptors answers every client in full', async (t) => {
  const upstream = createServer((socket) => socket.on('error', () => undefined))
  upstream.listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  const { port: upstreamPort } = upstream.address() as AddressInfo
  const ready = path.join(t.testdir(), 'ready.json')
  const serve = `exec "$0" "$1" serve --rule allowed.test:22 --listen 127.0.0.1:0 --ready-file "$2" --resolve "$3"`
  const child = spawn(
    '/bin/sh',
    [
      '-c',
      `ulimit -n ${DESCRIPTORS}; ${serve}`,
      process.execPath,
      BIN,
      ready,
      `allowed.test:127.0.0.1:${upstreamPort}`,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  )
  t.teardown(() => {
    child.kill('SIGKILL')
    upstream.close()
  })
  const started = Date.now()
  while (!existsSync(ready)) {
    if (Date.now() - started > DEADLINE_MS || child.exitCode !== null) throw new Error('no start')
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
  const port = Number(JSON.parse(readFileSync(ready, 'utf8')).listen.split(':')[1])
  const sockets: Socket[] = []
  const answers = await Promise.all(
    Array.from({ length: CLIENTS }, () => firstAnswer(port, sockets)),
  )
  const open = answers.filter((one) => one === 'HTTP/1.1 200 Connection Established\r\n\r\n').length
  const full = answers.filter((one) => /^HTTP\/1\.1 503 [\s\S]*Retry-After: 1\r\n/.test(one)).length
  t.equal(open + full, CLIENTS, 'each has a 200 or a whole 503')
  t.ok(open >= 16, `${open} tunnels`)
  t.ok(open * 2 < DESCRIPTORS, 'fewer than half of the descriptors are tunnels')
  for (const socket of sockets) socket.destroy()
  let again = ''
  while (!again.startsWith('HTTP/1.1 200') && Date.now() - started < DEADLINE_MS) {
    again = await firstAnswer(port, sockets)
  }
  t.match(again, /^HTTP\/1\.1 200/, 'a slot that is free again is used')
  for (const socket of sockets) socket.destroy()
})

/** The first bytes that come back; empty if the connection ends without any. */
function firstAnswer(port: number, sockets: Socket[]): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () =>
      socket.write('CONNECT allowed.test:22 HTTP/1.1\r\nHost: allowed.test:22\r\n\r\n'),
    )
    sockets.push(socket)
    socket.once('data', (chunk) => resolve(chunk.toString('latin1')))
    socket.on('error', () => resolve(''))
    socket.on('close', () => resolve(''))
  })
}
