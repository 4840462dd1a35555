import tap from 'tap'
import { createToken } from '../../src/proxy/authenticate.ts'
import { openProxy } from '../support/proxy.ts'

const PING = 'OPTIONS * HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n'

void tap.test(
  'OPTIONS * that may go no further is answered by the proxy, and recorded nowhere',
  async (t) => {
    const proxy = await openProxy(t)
    const client = await proxy.client(`${PING}\r\n`)
    const answer = await client.answer()
    t.equal(answer.status, 204)
    t.match(client.text, /\r\nProxy-Status: iterion-egress\r\n/)
    t.strictSame(
      proxy.events.map(({ type }) => type),
      ['policy_loaded'],
    )
    for (const other of [
      PING.replace('Max-Forwards: 0', 'Max-Forwards: 1'),
      PING.replace('*', '/'),
      PING.replace('OPTIONS', 'GET'),
      `${PING}Content-Length: 1\r\n`,
    ]) {
      const refused = await proxy.client(`${other}\r\n`)
      t.equal((await refused.answer()).status, 400, other)
    }
  },
)

void tap.test('it is authenticated as everything is', async (t) => {
  const token = createToken()
  const proxy = await openProxy(t, { token })
  const ask = async (more: string) =>
    (await (await proxy.client(`${PING}${more}\r\n`)).answer()).status
  t.equal(await ask(''), 407)
  t.equal(await ask(`Proxy-Authorization: Bearer ${token}\r\n`), 204)
})
