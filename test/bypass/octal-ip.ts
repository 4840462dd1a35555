import tap from 'tap'
import { openProxy } from '../support/proxy.ts'

// Spellings of an address that some readers fold and others look up as a name.

const FOLDED = [
  '2130706433',
  '0x7f000001',
  '0x7f.1',
  '0x7F.0x0.0x0.0x1',
  '127.1',
  '127.0.1',
  '0x7f.0.0.1',
  '0',
  '0x0',
  '2852039166',
  '0xa9fea9fe',
  '169.254.43518',
  '10.1',
  '0xa000005',
]
const BAD = [
  '0177.0.0.1',
  '0177.1',
  '017700000001',
  '127.0.0.01',
  '00.0.0.0',
  '127.0.0.1.5',
  '256.0.0.1',
  '127.0.0.256',
  '4294967296',
  '0x1000000000',
  '127..1',
  '1.2.3.4.',
  '0x',
  '1.0x',
  'a.1',
  '127.0.0.0x1g.1',
]

void tap.test(
  'hexadecimal, decimal and short spellings are the address, and the floor holds',
  async (t) => {
    const proxy = await openProxy(t, { mode: 'open' })
    for (const host of FOLDED) {
      for (const bytes of [
        `CONNECT ${host}:443 HTTP/1.1\r\nHost: x\r\n\r\n`,
        `GET http://${host}/ HTTP/1.1\r\nHost: ${host}\r\n\r\n`,
      ]) {
        t.equal((await (await proxy.client(bytes)).answer()).status, 403, host)
      }
    }
    t.strictSame(proxy.lookups, [], 'never looked up as a name')
  },
)

void tap.test('a leading zero, and whatever else ends in a number, is no host', async (t) => {
  const proxy = await openProxy(t, { mode: 'open' })
  for (const host of BAD) {
    const client = await proxy.client(`CONNECT ${host}:443 HTTP/1.1\r\nHost: x\r\n\r\n`)
    t.equal((await client.answer()).status, 400, host)
  }
  t.strictSame(proxy.lookups, [])
})
