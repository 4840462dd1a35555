import tap from 'tap'
import { fetch, ProxyAgent } from 'undici'
import { lacks } from '../support/clients/program.ts'
import { openStage, type Stage } from '../support/clients/stage.ts'
import type { Service } from '../support/clients/upstream.ts'

const HOST = 'stream.allowed.test'
const SILENCE_MS = 70_000
const BEFORE = 'data: before the silence\n\n'
const AFTER = 'data: after the silence\n\n'
const END = `data: ${'x'.repeat(100_000)}\n\n`

/** A stream that says something, is silent for longer than most idle limits, and goes on. */
const service: Service = {
  request: (_request, response) => {
    response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' })
    response.write(BEFORE)
    const timer = setTimeout(() => {
      response.write(AFTER)
      response.end(END)
    }, SILENCE_MS)
    response.once('close', () => clearTimeout(timer))
  },
}

async function readWithUndici({ egress, authority }: Stage, url: string): Promise<string> {
  const agent = new ProxyAgent({ uri: egress.proxyUrl, requestTls: { ca: authority.ca } })
  try {
    const response = await fetch(url, { dispatcher: agent })
    return await response.text()
  } finally {
    await agent.destroy()
  }
}

const skip = lacks('curl', 'openssl')
await tap.test('a stream that is silent for 70 s arrives whole', { skip }, async (t) => {
  const stage = await openStage(t, { allowed: [HOST], denied: [], service })
  const curl = async (url: string) => {
    const { code, output } = await stage.run(
      'curl',
      ['-q', '-sSN', '--cacert', stage.authority.caFile, url],
      {},
      SILENCE_MS + 30_000,
    )
    return code === 0 ? output : `exit ${code}: ${output}`
  }
  const started = performance.now()
  // All at once, so that they share one silence.
  const streams = [
    ['curl over TLS', curl(`https://${HOST}/events`)],
    ['curl, plain', curl(`http://${HOST}/events`)],
    ['undici over TLS', readWithUndici(stage, `https://${HOST}/events`)],
  ] as const
  for (const [name, stream] of streams) {
    const text = await stream
    t.equal(text, `${BEFORE}${AFTER}${END}`, name)
  }
  t.ok(performance.now() - started >= SILENCE_MS, 'it was silent that long')
})
