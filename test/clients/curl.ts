import tap from 'tap'
import { page, pages, testAllowed, testDenied, testVariables } from '../support/clients/fetches.ts'
import { lacks, versionOf } from '../support/clients/program.ts'
import { openStage, proxyVariables } from '../support/clients/stage.ts'

const skip = lacks('curl', 'openssl')
const HOST = 'api.allowed.test'
const TOKEN = 'curl-token'

await tap.test('curl', { skip }, async (t) => {
  const denied = ['evil.denied.test', 'verbose.denied.test', 'fail.denied.test', 'sni.denied.test']
  const stage = await openStage(t, { allowed: [HOST], denied, service: pages })
  const trust = ['-q', '--cacert', stage.authority.caFile]
  const curl = (...args: string[]) => stage.run('curl', [...trust, ...args])
  const fetcher = (flags: string) => ({
    client: {
      name: `curl ${flags}`,
      version: versionOf('curl', ['--version'], /^curl (\S+)/),
    },
    fetch: (url: string) => curl(flags, url),
  })

  await testAllowed(t, stage, HOST, fetcher('-sS'))
  await testDenied(t, stage, 'evil.denied.test', fetcher('-sS'))
  await testDenied(t, stage, 'fail.denied.test', fetcher('-sSf'))
  await testDenied(t, stage, 'verbose.denied.test', fetcher('-sSv'))
  await testVariables(t, stage, fetcher('-sS').client, (scheme, address, variables) =>
    stage.run('curl', [...trust, '-sS', `${scheme}://${address}/`], variables),
  )

  await t.test(
    'curl has a TLS alert where it asks for the certificate of another name',
    async (sub) => {
      const other = 'sni.denied.test'
      const ran = await curl('-sS', '--connect-to', `${other}:443:${HOST}:443`, `https://${other}/`)
      sub.equal(ran.code, 35)
      sub.match(ran.output, /unrecognized.name|alert/i, 'the alert is all that it can show')
      const record = await stage.egress.waitFor(({ data }) => data['sni'] === other)
      sub.match(record?.data, { host: HOST, port: 443, via: 'connect', reason: 'sni', sni: other })
      sub.notOk(
        stage.upstream.seen.some(({ host }) => host === other),
        'the upstream had no request',
      )
    },
  )
})

await tap.test('curl with a token', { skip }, async (t) => {
  const stage = await openStage(t, { allowed: [HOST], denied: [], service: pages, token: TOKEN })
  const flags = ['-q', '-sS', '--cacert', stage.authority.caFile]
  const curl = (proxy: string, ...args: string[]) =>
    stage.run('curl', [...flags, ...args], proxyVariables(proxy))
  const without = `http://${stage.egress.listen}`
  const isAuthRecord = ({ data }: { data: Readonly<Record<string, unknown>> }) =>
    data['reason'] === 'auth'

  for (const [scheme, code, shows] of [
    ['https', 56, '407'],
    ['http', 0, 'Proxy Authentication Required'],
  ] as const) {
    const url = `${scheme}://${HOST}/file`

    await t.test(`${scheme}: a token in the URL of the proxy is shown at once`, async (sub) => {
      const ran = await curl(stage.egress.proxyUrl, '-v', url)
      sub.strictSame([ran.code, ran.stdout], [0, page(HOST, '/file')])
      sub.notMatch(ran.stderr, '407')
    })

    await t.test(`${scheme}: --proxy-anyauth shows it after the 407`, async (sub) => {
      const user = ['--proxy-anyauth', '--proxy-user', `agent:${TOKEN}`]
      const ran = await curl(without, '-v', ...user, url)
      sub.strictSame([ran.code, ran.stdout], [0, page(HOST, '/file')])
      sub.match(ran.stderr, '407 Proxy Authentication Required')
      sub.ok(await stage.egress.waitFor(isAuthRecord), 'the event file has the first attempt')
    })

    await t.test(`${scheme}: without a token nothing is fetched`, async (sub) => {
      const before = stage.upstream.connections()
      const ran = await curl(without, url)
      sub.equal(ran.code, code)
      sub.match(ran.output, shows)
      sub.equal(stage.upstream.connections(), before, 'the upstream saw nothing')
    })
  }
})
