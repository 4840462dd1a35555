import tap from 'tap'
import { openProxy, until } from '../support/proxy.ts'
import { openHttpUpstream } from '../support/upstream.ts'

const request = (path: string, version: string) =>
  `GET http://allowed.test${path} HTTP/${version}\r\nHost: allowed.test\r\n\r\n`

// A `|` stands where the upstream pauses: Node takes a reset that comes in one go with bytes for an end.
void tap.test('an answer that breaks off does not look complete', async (t) => {
  const cuts: Readonly<Record<string, string>> = {
    '/length': 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf',
    '/chunk': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\nhalf',
    '/last': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n',
    '/trailer': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf|\r\n0\r\nX: y\r\n',
    '/garbage': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf|\r\nxyz\r\n',
  }
  for (const ending of ['end', 'reset'] as const) {
    const upstream = await openHttpUpstream(t, ({ line }, connection) => {
      const [whole = '', rest = ''] = (cuts[line.split(' ')[1] ?? ''] ?? '').split('|')
      connection.send(whole)
      setTimeout(() => {
        connection.send(rest)
        setTimeout(() => connection[ending](), 10)
      }, 10)
      return undefined
    })
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    for (const path of Object.keys(cuts)) {
      for (const version of ['1.1', '1.0']) {
        const client = await proxy.client(request(path, version))
        await until('it is over', () => client.isClosed || client.isEnded)
        t.equal(client.error?.code, 'ECONNRESET', `${path} ${ending} HTTP/${version}`)
        t.notMatch(client.text, /\r\n0\r\n\r\n/)
      }
    }
  }
})
