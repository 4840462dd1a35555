import { createRequire } from 'node:module'
import tap from 'tap'
import { page, pages } from '../support/clients/fetches.ts'
import { lacks } from '../support/clients/program.ts'
import { holdRecord } from '../support/clients/record.ts'
import { openStage, refused } from '../support/clients/stage.ts'

const skip = lacks('openssl')
const HOST = 'api.allowed.test'
const DENIED = 'evil.denied.test'
const TOKEN = 'node-token'
const FETCH = `
const undici = process.argv[2]
if (undici) {
  const { EnvHttpProxyAgent, setGlobalDispatcher } = require(undici)
  setGlobalDispatcher(new EnvHttpProxyAgent())
}
fetch(process.argv[1], { signal: AbortSignal.timeout(20_000) }).then(async (response) => {
  if (response.ok) process.stdout.write(await response.text())
  else throw new Error(response.status + ' ' + response.statusText + ' ' + (await response.text()))
}).catch((error) => {
  console.error(error)
  process.exitCode = 1
})`

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)
const readsVariables = major > 24 || (major === 24 && minor >= 5) || (major === 22 && minor >= 21)
const asked = { NODE_USE_ENV_PROXY: '1' }

await tap.test("Node's own fetch", { skip }, async (t) => {
  const stage = await openStage(t, {
    allowed: [HOST],
    denied: [DENIED],
    service: pages,
    token: TOKEN,
  })
  const fetchIn = (url: string, more: Readonly<Record<string, string>>, ...args: string[]) =>
    stage.run(process.execPath, ['-e', FETCH, url, ...args], {
      NODE_EXTRA_CA_CERTS: stage.authority.caFile,
      NO_PROXY: '',
      no_proxy: '',
      ...more,
    })

  // An address of loopback, so that no name is looked up by a client that does not use the proxy.
  const direct = `127.0.0.1:${stage.upstream.tlsPort}`

  await t.test('ignores the proxy variables and goes to the upstream itself', async (sub) => {
    const ran = await fetchIn(`https://${direct}/file`, {})
    sub.strictSame([ran.code, ran.stdout], [0, page(direct, '/file')], ran.output)
    sub.notOk(
      stage.egress.events().some(({ data }) => data['host'] === '127.0.0.1'),
      'the proxy was not asked',
    )
  })

  for (const scheme of ['https', 'http']) {
    await t.test(`fetches ${scheme} with undici's EnvHttpProxyAgent`, async (sub) => {
      const undici = createRequire(import.meta.url).resolve('undici')
      const ran = await fetchIn(`${scheme}://${HOST}/file`, {}, undici)
      sub.strictSame([ran.code, ran.stdout], [0, page(HOST, '/file')], ran.output)
    })
  }

  if (!readsVariables) {
    await t.test('ignores NODE_USE_ENV_PROXY, since it is too old', async (sub) => {
      const ran = await fetchIn(`https://${direct}/file`, asked)
      sub.strictSame([ran.code, ran.stdout], [0, page(direct, '/file')], ran.output)
    })
    return
  }

  for (const scheme of ['https', 'http']) {
    await t.test(`reads NODE_USE_ENV_PROXY and fetches ${scheme}`, async (sub) => {
      const ran = await fetchIn(`${scheme}://${HOST}/file`, asked)
      sub.strictSame([ran.code, ran.stdout], [0, page(HOST, '/file')], ran.output)
    })
  }

  for (const [scheme, column, port] of [
    ['https', 'connect', 443],
    ['http', 'plain', 80],
  ] as const) {
    await t.test(`is refused ${scheme}`, async (sub) => {
      // Versions differ in how they send a plain request, so only the host and the reason are asked for.
      const expected = { host: DENIED, port, reason: 'no-rule' } as const
      const ran = await refused(sub, stage, expected, () =>
        fetchIn(`${scheme}://${DENIED}/file`, asked),
      )
      holdRecord(
        sub,
        { name: 'Node fetch, NODE_USE_ENV_PROXY=1', version: process.versions.node },
        column,
        { outcome: `exit ${ran.code}`, text: ran.output, host: DENIED, port },
      )
    })
  }
})
