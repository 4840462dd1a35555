import { HttpProxyAgent } from 'http-proxy-agent'
import { HttpsProxyAgent } from 'https-proxy-agent'
import tap from 'tap'
import { fetch, ProxyAgent } from 'undici'
import { pages, testAllowed, testDenied, testWithoutToken } from '../support/clients/fetches.ts'
import {
  getWithNode,
  libraryOutcome,
  readAnswer,
  runLibrary,
  versionOfPackage,
} from '../support/clients/node-client.ts'
import { lacks } from '../support/clients/program.ts'
import { openStage } from '../support/clients/stage.ts'

const skip = lacks('openssl')
const HOST = 'api.allowed.test'
const options = {
  allowed: [HOST],
  denied: ['evil.denied.test'],
  service: pages,
  token: 'node-token',
}

for (const [name, proxyTunnel] of [
  ['undici ProxyAgent', true],
  ['undici ProxyAgent, proxyTunnel: false', false],
] as const) {
  await tap.test(name, { skip }, async (t) => {
    const stage = await openStage(t, options)
    const { ca } = stage.authority
    const through = (proxy: string) => {
      const agent = new ProxyAgent({ uri: proxy, requestTls: { ca }, proxyTunnel })
      t.teardown(() => agent.destroy())
      return {
        client: { name, version: versionOfPackage('undici') },
        fetch: (url: string) =>
          runLibrary(async () => readAnswer(await fetch(url, { dispatcher: agent }))),
        outcome: libraryOutcome,
        plainVia: proxyTunnel ? ('connect' as const) : ('forward' as const),
      }
    }

    await testAllowed(t, stage, HOST, through(stage.egress.proxyUrl))
    await testDenied(t, stage, 'evil.denied.test', through(stage.egress.proxyUrl))
    await testWithoutToken(t, stage, HOST, through(`http://${stage.egress.listen}`))
  })
}

await tap.test('http-proxy-agent and https-proxy-agent with node:http', { skip }, async (t) => {
  const stage = await openStage(t, options)
  const { ca } = stage.authority
  const get = (url: string, proxy: string) =>
    runLibrary(() => {
      const agent = url.startsWith('https:')
        ? new HttpsProxyAgent(proxy, { ca })
        : new HttpProxyAgent(proxy)
      return getWithNode(url, { agent, ca })
    })
  const fetcher = {
    client: { name: 'http(s)-proxy-agent', version: versionOfPackage('https-proxy-agent') },
    fetch: (url: string) => get(url, stage.egress.proxyUrl),
    outcome: libraryOutcome,
  }

  await testAllowed(t, stage, HOST, fetcher)
  await testDenied(t, stage, 'evil.denied.test', fetcher)

  const without = `http://${stage.egress.listen}`
  await testWithoutToken(t, stage, HOST, { ...fetcher, fetch: (url) => get(url, without) })
})
