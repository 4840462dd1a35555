import tap from 'tap'
import { pages } from '../support/clients/fetches.ts'
import { lacks } from '../support/clients/program.ts'
import { openStage } from '../support/clients/stage.ts'

const HOST = 'api.allowed.test'
const DENIED = 'evil.denied.test'
const TOKEN = 'socks-token'

for (const token of [undefined, TOKEN]) {
  const title = `curl by SOCKS${token === undefined ? '' : ' with a token'}`
  await tap.test(title, { skip: lacks('curl', 'openssl') }, async (t) => {
    const allowed = [HOST]
    const parts = { allowed, denied: [DENIED], service: pages }
    const stage = await openStage(t, { ...parts, ...(token !== undefined && { token }) })
    const user = token === undefined ? '' : `me:${token}@`
    const none = {
      HTTPS_PROXY: undefined,
      https_proxy: undefined,
      HTTP_PROXY: undefined,
      http_proxy: undefined,
      ALL_PROXY: undefined,
      all_proxy: undefined,
    }
    const curl = (proxy: string, url: string) =>
      stage.run('curl', ['-q', '-sS', '--cacert', stage.authority.caFile, '-x', proxy, url], none)
    const proxy = `socks5h://${user}${stage.egress.listen}`
    for (const scheme of ['https', 'http']) {
      const ran = await curl(proxy, `${scheme}://${HOST}/page`)
      t.equal(ran.code, 0, ran.output)
      t.ok(stage.upstream.seen.some(({ host }) => host === HOST))
    }
    const refused = await curl(proxy, `https://${DENIED}/`)
    t.equal(refused.code, 97, 'a proxy handshake that failed')
    t.match(refused.output, /\(2\)|not allowed/i)
    const record = await stage.egress.waitFor(({ data }) => data['host'] === DENIED)
    t.match(record?.data, { via: 'socks', reason: 'no-rule', port: 443 })
    if (token === undefined) return
    const stranger = await curl(`socks5h://me:wrong@${stage.egress.listen}`, `https://${HOST}/`)
    t.equal(stranger.code, 97)
    t.match((await stage.egress.waitFor(({ data }) => data['reason'] === 'auth'))?.data, {
      via: 'socks',
    })
  })
}

await tap.test('ssh by nc', { skip: lacks('ssh', 'nc') }, async (t) => {
  const stage = await openStage(t, { allowed: [HOST], denied: [DENIED], service: pages })
  const command = `nc -X 5 -x ${stage.egress.listen} %h %p`
  const options = ['StrictHostKeyChecking=no', 'UserKnownHostsFile=/dev/null', 'BatchMode=yes']
  const words = ['-F', '/dev/null', ...options.flatMap((one) => ['-o', one])]
  const ran = await stage.run('ssh', [
    ...words,
    '-o',
    `ProxyCommand=${command}`,
    `me@${DENIED}`,
    'true',
  ])
  t.equal(ran.code, 255)
  t.match(
    ran.output,
    /egress denied: no rule allows evil\.denied\.test:22/,
    'ssh prints the reason',
  )
  const record = await stage.egress.waitFor(({ data }) => data['host'] === DENIED)
  t.match(record?.data, { via: 'socks', reason: 'no-rule', port: 22 })
})
