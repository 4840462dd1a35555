import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { closeDebugger } from '../debugger.ts'
import { answerProblem, PROBE_REQUEST } from '../door/probe.ts'
import { whereServed } from './health-target.ts'

// A program of its own, for the health check of the image: asks the proxy that the container runs whether it serves. Where
// and by which token it finds as the first process of the container was told: there is nothing to set up.

const ANSWER_MS = 3_000
const FIRST_PROCESS = '/proc/1'

closeDebugger()

function unhealthy(why: string): void {
  process.stdout.write(`${why}\n`)
  process.exitCode = 1
}

try {
  const words = readFileSync(`${FIRST_PROCESS}/cmdline`, 'utf8').split('\0')
  const { host, port, token } = whereServed(words, process.env, (file) =>
    readFileSync(file, 'utf8'),
  )
  const field = token === undefined ? '' : `Proxy-Authorization: Bearer ${token}\r\n`
  let answer = ''
  const socket = connect({ host, port })
  socket.setTimeout(ANSWER_MS, () => socket.destroy(new Error(`no answer within ${ANSWER_MS} ms`)))
  socket.on('error', (error) => unhealthy(error.message))
  socket.on('data', (chunk) => (answer += chunk.toString('latin1')))
  socket.on('end', () => {
    const problem = answerProblem(answer)
    if (problem !== undefined) unhealthy(problem)
    socket.destroy()
  })
  socket.write(PROBE_REQUEST.replace(/\r\n$/, `${field}\r\n`))
} catch (error) {
  unhealthy(error instanceof Error ? error.message : String(error))
}
