import { spawn } from 'node:child_process'
import { connect, type Socket } from 'node:net'
import type { Test } from 'tap'
import { pause } from './proxy.ts'

const PROGRAM = `
  const server = require('node:net').createServer()
  server.listen({ port: 0, host: process.argv[1], backlog: 1 }, () => console.log(server.address().port))
`

/**
 * A port of this machine that answers no attempt to connect: its process is stopped, and the queue before it is full.
 */
export async function openBlackHole(
  t: Test,
  host = '127.0.0.1',
): Promise<{ host: string; port: number }> {
  const child = spawn(process.execPath, ['-e', PROGRAM, host], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const port = Number(
    await new Promise((resolve) => child.stdout.once('data', (chunk) => resolve(String(chunk)))),
  )
  child.kill('SIGSTOP')
  await pause(20)
  for (;;) {
    const socket = connect({ host, port })
    t.teardown(() => socket.destroy())
    if (!(await connects(socket))) return { host, port }
  }
}

function connects(socket: Socket): Promise<boolean> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => resolve(false), 60)
    socket.on('error', () => undefined)
    socket.once('connect', () => {
      clearTimeout(timer)
      resolve(true)
    })
  })
}

/** A port of this machine that nobody listens on. */
export async function closedPort(host = '127.0.0.1'): Promise<number> {
  const { createServer } = await import('node:net')
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, host, resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  return typeof address === 'object' && address ? address.port : 0
}
