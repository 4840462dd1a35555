import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import tap from 'tap'
import { pages, testAllowed, testDenied, testWithoutToken } from '../support/clients/fetches.ts'
import { lacks, versionOf } from '../support/clients/program.ts'
import { holdVariables } from '../support/clients/record.ts'
import type { Variables } from '../support/clients/run-client.ts'
import { onlyVariable, openStage, proxyVariables } from '../support/clients/stage.ts'

const HOST = 'api.allowed.test'
const TOKEN = 'go-token'
const SOURCE = fileURLToPath(new URL('../support/clients/fetch.go', import.meta.url))

await tap.test('Go net/http', { skip: lacks('go', 'openssl') }, async (t) => {
  const denied = ['evil.denied.test']
  const stage = await openStage(t, { allowed: [HOST], denied, service: pages, token: TOKEN })
  const program = join(stage.folder, 'fetch')
  const built = await stage.run('go', ['build', '-o', program, SOURCE], {
    CGO_ENABLED: '0',
    GOENV: 'off',
    GOFLAGS: '-mod=mod',
    GOPROXY: 'off',
    GOSUMDB: 'off',
    GOTELEMETRY: 'off',
    GOTOOLCHAIN: 'local',
  })
  t.equal(built.code, 0, built.output)
  const go = (url: string, variables: Variables) =>
    stage.run(program, [url], { SSL_CERT_FILE: stage.authority.caFile, ...variables })
  const fetcher = {
    client: { name: 'Go net/http', version: versionOf('go', ['version'], /go(\d\S*)/) },
    fetch: (url: string) => go(url, {}),
  }

  await testAllowed(t, stage, HOST, fetcher)
  await testDenied(t, stage, 'evil.denied.test', fetcher)

  const without = proxyVariables(`http://${stage.egress.listen}`)
  await testWithoutToken(t, stage, HOST, { ...fetcher, fetch: (url) => go(url, without) })

  await t.test('Go net/http reads some proxy variables', async (sub) => {
    // It never asks a proxy for an address of loopback, so each is tried with a name that only the proxy knows.
    const read: string[] = []
    for (const variable of ['https_proxy', 'HTTPS_PROXY', 'http_proxy', 'HTTP_PROXY']) {
      const scheme = variable.slice(0, -'_proxy'.length).toLowerCase()
      const ran = await go(`${scheme}://${HOST}/`, onlyVariable(variable, stage.egress.proxyUrl))
      if (ran.code === 0) read.push(variable)
    }
    holdVariables(sub, 'Go net/http', read)
  })
})
