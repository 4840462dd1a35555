import tap from 'tap'
import { hello, helloMessage, records } from '../support/client-hello.ts'
import { cpuTimeMs } from '../support/cpu-time.ts'
import { ESTABLISHED, openProxy } from '../support/proxy.ts'
import { openUpstream } from '../support/upstream.ts'

// A hello in thousands of records and segments: a reader that begins again each time stops everybody else.

/** A hello that never ends, as far as the proxy reads, one byte a record. */
function endless(): Buffer {
  const message = Buffer.alloc(2_800)
  message.writeUInt32BE(0x01_00_ff_ff)
  return records(message, 1)
}

void tap.test('a hello of one byte a record is judged by its name', async (t) => {
  const upstream = await openUpstream(t)
  const proxy = await openProxy(t, { rules: ['allowed.test'], hosts: { 'allowed.test': upstream } })
  const bytes = records(helloMessage({ serverName: 'allowed.test' }), 1)
  await proxy.tunnel('allowed.test:443', bytes)
  const connection = await upstream.connection()
  await connection.until(bytes.length)
  t.ok(connection.bytes.equals(bytes), 'it goes on as it came')
  const evil = records(helloMessage({ serverName: 'evil.test' }), 1)
  const refused = await proxy.tunnel('allowed.test:443', evil)
  await refused.closed()
  t.equal(upstream.connections[1]?.text, '')
})

void tap.test(
  'sixteen KiB of them in small segments cost little, and others are served',
  async (t) => {
    const upstream = await openUpstream(t)
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    const client = await proxy.tunnel('allowed.test:443')
    const bytes = endless()
    const before = cpuTimeMs()
    for (let at = 0; at < bytes.length; at += 40) {
      client.send(bytes.subarray(at, at + 40))
      await new Promise((resolve) => setImmediate(resolve))
    }
    await client.closed()
    const spent = cpuTimeMs() - before
    t.ok(spent < 4_000, `${spent} ms`)
    t.ok(client.text.startsWith(`${ESTABLISHED}\x15\x03\x03`))
    t.equal(upstream.connections[0]?.text, '')
    await proxy.tunnel('allowed.test:443', hello('allowed.test'))
    await (await upstream.connection(1)).until(1)
  },
)
