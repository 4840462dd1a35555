import tap from 'tap'
import { hello, helloMessage, records } from '../support/client-hello.ts'
import { ESTABLISHED, openProxy, until } from '../support/proxy.ts'
import { openUpstream } from '../support/upstream.ts'

// RFC 8446 5.1: the version of a record has to be ignored. A server that does so reads a hello where a reader who goes
// by the version sees none.

function withVersion(bytes: Buffer, version: number): Buffer {
  const changed = Buffer.from(bytes)
  changed.writeUInt8(version, 1)
  return changed
}

const HELLO = hello('evil.test')
const WARNING = Buffer.from([21, 3, 3, 0, 2, 1, 90])
const VERSIONS = [0, 1, 2, 4, 5, 15, 127, 255]

const ROWS: readonly (readonly [title: string, bytes: Buffer])[] = [
  ...VERSIONS.map((version) => [`version ${version}`, withVersion(HELLO, version)] as const),
  ...VERSIONS.map(
    (version) =>
      [
        `version ${version} behind a warning`,
        Buffer.concat([withVersion(WARNING, version), HELLO]),
      ] as const,
  ),
  ['behind a warning of a good version', Buffer.concat([WARNING, HELLO])],
  ['behind a change of cipher', Buffer.concat([Buffer.from([20, 3, 3, 0, 1, 1]), HELLO])],
  ['behind an empty record', Buffer.concat([Buffer.from([22, 3, 1, 0, 0]), HELLO])],
  [
    'in its second record',
    Buffer.concat([
      records(helloMessage({ serverName: 'evil.test' }).subarray(0, 30)),
      withVersion(records(helloMessage({ serverName: 'evil.test' }).subarray(30)), 4),
    ]),
  ],
  ['in the form of SSL 2', Buffer.from([0x80, 0x2e, 1, 3, 1, 0, 0x15, 0, 0, 0, 0x10])],
]

void tap.test('a hello under any record version is judged, and not a byte goes on', async (t) => {
  const upstream = await openUpstream(t)
  for (const port of [443, 8443]) {
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    for (const [title, bytes] of ROWS) {
      const client = await proxy.tunnel(`allowed.test:${port}`, bytes)
      await client.closed()
      t.ok(client.text.startsWith(`${ESTABLISHED}\x15\x03\x03\0\x02\x02`), title)
    }
    t.strictSame(new Set(proxy.reasons), new Set(['sni']))
  }
  t.ok(upstream.connections.every(({ text }) => text === ''))
  await until('all are let go', () => upstream.open === 0)
})

void tap.test('nor byte by byte, nor behind a server that speaks first', async (t) => {
  const upstream = await openUpstream(t, (connection) => connection.send('220 hello\r\n'))
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const slow = ROWS.filter((_, i) => i % 4 === 0).map(async ([title, bytes]) => {
    const client = await proxy.tunnel('allowed.test:443')
    await client.until('220 hello')
    const pieces = Array.from(bytes.subarray(0, 12), (_, i) => bytes.subarray(i, i + 1))
    await client.sendPieces([...pieces, bytes.subarray(12)])
    await client.closed()
    t.match(client.text, '\x15\x03\x03\0\x02\x02', title)
  })
  await Promise.all(slow)
  t.ok(upstream.connections.every(({ text }) => text === ''))
})

void tap.test('other protocols that begin with such a byte pass', async (t) => {
  const upstream = await openUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  // A message with its length in front, little end first, and a number behind it.
  const rows = ['\x16\x01\0\0\x05\0\0\0', '\x15\0\0\0\x01\0\0\0', '\x14\x01\0\0', '\x18\x02\0']
  for (const [i, bytes] of rows.entries()) {
    await proxy.tunnel('allowed.test:27017', bytes)
    t.equal(await (await upstream.connection(i)).until(bytes.length), bytes)
  }
})
