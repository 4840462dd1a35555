import { networkInterfaces } from 'node:os'
import tap from 'tap'
import { valuesOf } from '../support/http-answer.ts'
import { openProxy } from '../support/proxy.ts'
import { fieldsOf, openHttpUpstream } from '../support/upstream.ts'

// A request to the proxy itself would go round until no socket is left.

const own = Object.values(networkInterfaces())
  .flatMap((list) => list ?? [])
  .map(({ address }) => address)

void tap.test('S-08 no rule opens the own listener, in whatever spelling', async (t) => {
  for (const listenHost of ['127.0.0.1', '::1', '0.0.0.0', '::']) {
    const [four, six] = [
      !listenHost.includes('::1'),
      listenHost !== '127.0.0.1' && listenHost !== '0.0.0.0',
    ]
    const literals = [
      ...(four
        ? [
            '127.0.0.1',
            '0.0.0.0',
            '127.1',
            '2130706433',
            '0x7f.1',
            '0',
            '[::ffff:127.0.0.1]',
            '[::ffff:7f00:1]',
          ]
        : []),
      ...(six ? ['[::1]', '[::]', '[0:0:0:0:0:0:0:1]'] : []),
      ...(listenHost === '0.0.0.0' || listenHost === '::'
        ? own.filter((ip) => !ip.includes(':'))
        : []),
    ]
    // The port is known only when it listens; a range of one address is what opens each of them.
    const probe = await openProxy(t, { listenHost, insecureNoAuth: true })
    const { port } = probe
    const rules = [
      '127.0.0.1',
      '0.0.0.0',
      '[::1]',
      '[::]',
      ...own.map((ip) => (ip.includes(':') ? `[${ip}]` : ip)),
    ]
      .filter((ip, i, all) => all.indexOf(ip) === i)
      .map((ip) => `${ip}:${port}`)
    const { policyWith } = await import('../support/proxy.ts')
    probe.proxy.setPolicy(policyWith({ rules }))
    for (const host of literals) {
      const dialled = host
      for (const bytes of [
        `CONNECT ${dialled}:${port} HTTP/1.1\r\nHost: x\r\n\r\n`,
        `GET http://${dialled}:${port}/ HTTP/1.1\r\nHost: ${dialled}:${port}\r\n\r\n`,
      ]) {
        const client = await (
          await import('../support/raw-client.ts')
        ).openRaw(t, port, {
          host: six && !four ? '::1' : '127.0.0.1',
          send: bytes,
        })
        const answer = await client.answer()
        t.equal(answer.status, 508, `${listenHost}: ${bytes.slice(0, 40)}`)
        t.strictSame(valuesOf(answer, 'x-iterion-reason'), ['loop'])
        client.reset()
      }
    }
  }
})

void tap.test('S-08 nor a name that leads there, given by hand or not', async (t) => {
  const upstream = await openHttpUpstream(t)
  let answers: readonly { address: string; port?: number; given?: boolean }[] = []
  let now = 0
  const proxy = await openProxy(t, {
    hosts: { 'allowed.test': () => answers },
    now: () => (now += 3_000),
  })
  const { port } = proxy
  for (const address of ['127.0.0.1', '0.0.0.0', '::ffff:127.0.0.1', '::']) {
    for (const given of [true, false]) {
      answers = [{ address, port, given }]
      for (const bytes of [
        'CONNECT allowed.test:443 HTTP/1.1\r\nHost: x\r\n\r\n',
        'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n',
        'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n',
      ]) {
        t.equal((await (await proxy.client(bytes)).answer()).status, 508, `${address} ${given}`)
      }
    }
  }
  t.ok(proxy.reasons.every((reason) => reason === 'loop'))
  answers = [{ address: '127.0.0.1', port: upstream.port, given: true }]
  const fine = await proxy.client('GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n\r\n')
  t.equal((await fine.answer()).status, 200, 'another port of this machine that was given by hand')
})

void tap.test('a request that comes back with our Via goes no further', async (t) => {
  const upstream = await openHttpUpstream(t)
  const proxy = await openProxy(t, { hosts: { 'allowed.test': upstream } })
  const get = (via: string) =>
    `GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\n${via}\r\n`
  await (await proxy.client(get(''))).answer()
  const [via = ''] = fieldsOf(await upstream.request(), 'via')
  const ours = via.split(' ')[1] ?? ''
  const rows = [
    `Via: ${via}\r\n`,
    `Via: 1.0 a, ${via}\r\n`,
    `Via: 1.0 a\r\nVIA: HTTP/1.1 ${ours.toUpperCase()} (x)\r\n`,
  ]
  for (const field of rows) {
    t.equal((await (await proxy.client(get(field))).answer()).status, 508, field)
    const tunnel = await proxy.tunnel(
      'allowed.test:80',
      `GET / HTTP/1.1\r\nHost: allowed.test\r\n${field}\r\n`,
    )
    t.equal((await tunnel.answer()).status, 508, 'inside a tunnel')
  }
  const other = await proxy.client(get('Via: 1.1 iterion-egress-000000000000\r\n'))
  t.equal((await other.answer()).status, 200, 'another proxy of this kind is no loop')
})
