import tap from 'tap'
import { openProxy } from '../support/proxy.ts'
import { openHttpUpstream } from '../support/upstream.ts'

// Two Host fields: whoever reads the first one and whoever reads the last one disagree.

const FIELDS = [
  'Host: allowed.test\r\nHost: evil.test\r\n',
  'Host: evil.test\r\nHost: allowed.test\r\n',
  'Host: allowed.test\r\nHost: allowed.test\r\n',
  'Host: allowed.test\r\nhOST: evil.test\r\n',
  'Host: allowed.test\r\nX: y\r\nHost:\r\n',
]

void tap.test('by every way in', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  for (const fields of FIELDS) {
    for (const version of ['1.1', '1.0']) {
      const rows = [
        `GET http://allowed.test/ HTTP/${version}\r\n${fields}\r\n`,
        `CONNECT allowed.test:80 HTTP/${version}\r\n${fields}\r\n`,
        `GET http://allowed.test/ HTTP/${version}\r\n${fields}Connection: upgrade\r\nUpgrade: websocket\r\n\r\n`,
      ]
      for (const bytes of rows) {
        t.equal((await (await proxy.client(bytes)).answer()).status, 400, bytes.slice(0, 30))
      }
      const tunnel = await proxy.tunnel('allowed.test:80', `GET / HTTP/${version}\r\n${fields}\r\n`)
      t.equal((await tunnel.answer()).status, 400, 'inside a tunnel')
    }
  }
  t.equal(upstream.received.length, 0)
})
