import tap from 'tap'
import { openProxy } from '../support/proxy.ts'

// An IPv4 address of the floor in an IPv6 coat.

const COATS = [
  '::ffff:127.0.0.1',
  '::ffff:7f00:1',
  '0:0:0:0:0:ffff:127.0.0.1',
  '::127.0.0.1',
  '::7f00:1',
  '64:ff9b::127.0.0.1',
  '64:ff9b::7f00:1',
  '64:ff9b:1::7f00:1',
  '2002:7f00:1::',
  '2002:7f00:0001:0:0:0:0:1',
  '2001:0:7f00:1::',
  '2001:0:0:0:0:0:80ff:fffe',
  '::ffff:0:127.0.0.1',
  '::ffff:169.254.169.254',
  '64:ff9b::a9fe:a9fe',
  '2002:a9fe:a9fe::',
  '::1',
  '::',
]

void tap.test('as a literal, in every mode and by every way in', async (t) => {
  for (const mode of ['allowlist', 'denylist', 'open'] as const) {
    const proxy = await openProxy(t, {
      mode,
      rules: mode === 'denylist' ? ['!evil.test'] : ['0.0.0.0/0', '::/0'],
    })
    for (const coat of COATS) {
      for (const bytes of [
        `CONNECT [${coat}]:443 HTTP/1.1\r\nHost: x\r\n\r\n`,
        `GET http://[${coat}]/ HTTP/1.1\r\nHost: [${coat}]\r\n\r\n`,
      ]) {
        const answer = await (await proxy.client(bytes)).answer()
        t.equal(answer.status, 403, `${mode} ${coat}`)
      }
    }
    t.strictSame(
      proxy.reasons.filter((reason) => !/^(?:special|metadata)-address$/.test(reason)),
      [],
    )
  }
})

void tap.test('as the answer of a resolver', async (t) => {
  let address = ''
  let now = 0
  const proxy = await openProxy(t, {
    mode: 'open',
    hosts: { 'rebind.test': () => [{ address }] },
    now: () => (now += 3_000),
  })
  for (address of COATS) {
    const client = await proxy.client('CONNECT rebind.test:443 HTTP/1.1\r\nHost: x\r\n\r\n')
    t.equal((await client.answer()).status, 403, address)
  }
})
