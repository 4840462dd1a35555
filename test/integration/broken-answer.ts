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

void tap.test(
  'an answer that lasts until its connection ends is whole only if it ends',
  async (t) => {
    const head = 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n'
    const upstream = await openHttpUpstream(t, ({ line }, connection) => {
      connection.send(head)
      setTimeout(() => {
        connection.send('half')
        if (line.includes('/end')) connection.end()
        else if (line.includes('/together')) connection.reset()
        else setTimeout(() => connection.reset(), 30)
      }, 10)
      return undefined
    })
    const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
    for (const version of ['1.1', '1.0']) {
      for (let i = 0; i < 20; i++) {
        const whole = await proxy.client(request('/end', version))
        if (version === '1.1') await whole.until('half\r\n0\r\n\r\n')
        else await until('it is over', () => whole.isEnded)
        if (!whole.text.includes('half')) t.fail('a proper end')
        for (const path of ['/later', '/together']) {
          const cut = await proxy.client(request(path, version))
          await until('it is over', () => cut.isClosed || cut.isEnded)
          if (/\r\n0\r\n\r\n/.test(cut.text)) t.fail(`${path} looks complete`)
          // Node, as this client, takes a reset together with bytes for an end.
          if (path === '/later' && cut.error?.code !== 'ECONNRESET') t.fail(`${path}: an end`)
        }
      }
    }
  },
)

void tap.test('answers without a body leave nothing on a kept connection', async (t) => {
  const upstream = await openHttpUpstream(t, () => 'HTTP/1.1 304 Not Modified\r\n\r\n')
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const client = await proxy.client()
  for (let i = 0; i < 15; i++) {
    client.send(request('/', '1.1'))
    t.equal((await client.answer()).status, 304)
  }
  t.equal(upstream.connections.length, 1)
})
