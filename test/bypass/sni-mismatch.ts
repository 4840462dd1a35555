import tap from 'tap'
import { hello, helloMessage, records, serverNameExtension } from '../support/client-hello.ts'
import { ESTABLISHED, openProxy } from '../support/proxy.ts'
import { openUpstream } from '../support/upstream.ts'

// A TLS client asks for another name than its tunnel has, in ways that two readers may read differently.

const OTHER = serverNameExtension('evil.test')
const message = helloMessage({ serverName: 'allowed.test' })

function withLength(data: Buffer, at: number, by: number): Buffer {
  const changed = Buffer.from(data)
  changed.writeUInt8(((changed[at] ?? 0) + by) & 0xff, at)
  return changed
}

function nameList(...entries: readonly (readonly [type: number, name: string])[]): Buffer {
  const parts = entries.map(([type, name]) =>
    Buffer.concat([Buffer.from([type, 0, name.length]), Buffer.from(name, 'latin1')]),
  )
  const list = Buffer.concat(parts)
  return Buffer.concat([Buffer.from([0, list.length]), list])
}

const ROWS: readonly (readonly [title: string, bytes: Buffer])[] = [
  ['another name', hello('evil.test')],
  ['the extension twice', hello('allowed.test', { extensions: [OTHER] })],
  ['the extension twice, the other one first', hello('allowed.test', { before: [OTHER] })],
  [
    'two names in one list',
    hello(undefined, { extensions: [[0, nameList([0, 'allowed.test'], [0, 'evil.test'])]] }),
  ],
  [
    'a name of an unknown type first',
    hello(undefined, { extensions: [[0, nameList([1, 'evil.test'], [0, 'allowed.test'])]] }),
  ],
  ['an empty list', hello(undefined, { extensions: [[0, nameList()]] })],
  ['an empty name', hello(undefined, { extensions: [[0, nameList([0, ''])]] })],
  ['an empty extension', hello(undefined, { extensions: [[0, Buffer.alloc(0)]] })],
  [
    'bytes behind the list',
    hello(undefined, {
      extensions: [[0, Buffer.concat([nameList([0, 'allowed.test']), Buffer.from([0])])]],
    }),
  ],
  ['a session id that is too long', hello('allowed.test', { sessionId: Buffer.alloc(33) })],
  ['no suites', hello('allowed.test', { suites: Buffer.alloc(0) })],
  ['an odd length of suites', hello('allowed.test', { suites: Buffer.alloc(3) })],
  ['no compressions', hello('allowed.test', { compressions: Buffer.alloc(0) })],
  ['another protocol version', hello('allowed.test', { version: 0x0203 })],
  ['a handshake that is shorter than what is in it', records(withLength(message, 3, -4))],
  [
    'two messages, the second one with another name',
    Buffer.concat([records(Buffer.concat([Buffer.from([0, 0, 0, 0]), message]))]),
  ],
  [
    'a record of another type in between',
    Buffer.concat([
      records(message.subarray(0, 40)),
      records(Buffer.from([1, 0]), 2, 21),
      records(message.subarray(40)),
    ]),
  ],
  [
    'a record of another version',
    Buffer.concat([Buffer.from([22, 2, 0]), records(message).subarray(3)]),
  ],
]

void tap.test('all of them are refused, and not a byte goes on', async (t) => {
  const upstream = await openUpstream(t)
  const proxy = await openProxy(t, { rules: ['allowed.test'], hosts: { 'allowed.test': upstream } })
  for (const [i, [title, bytes]] of ROWS.entries()) {
    const client = await proxy.tunnel('allowed.test:443', bytes)
    await client.closed()
    t.ok(client.text.startsWith(`${ESTABLISHED}\x15\x03\x03`), title)
    t.equal(upstream.connections[i]?.text, '', title)
  }
  t.ok(proxy.reasons.every((reason) => reason === 'sni'))
})
