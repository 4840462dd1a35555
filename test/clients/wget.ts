import tap from 'tap'
import {
  pages,
  testAllowed,
  testDenied,
  testVariables,
  testWithoutToken,
} from '../support/clients/fetches.ts'
import { lacks, versionOf } from '../support/clients/program.ts'
import type { Variables } from '../support/clients/run-client.ts'
import { openStage, proxyVariables } from '../support/clients/stage.ts'

const HOST = 'api.allowed.test'
const TOKEN = 'wget-token'

await tap.test('wget', { skip: lacks('wget', 'openssl') }, async (t) => {
  const denied = ['evil.denied.test']
  const stage = await openStage(t, { allowed: [HOST], denied, service: pages, token: TOKEN })
  const wget = (url: string, variables: Variables) => {
    const flags = ['--no-config', '--no-hsts', '--tries=1', '--timeout=20', '-nv', '-O', '-']
    return stage.run(
      'wget',
      [...flags, `--ca-certificate=${stage.authority.caFile}`, url],
      variables,
    )
  }
  const fetcher = {
    client: { name: 'wget', version: versionOf('wget', ['--version'], /^GNU Wget (\S+)/) },
    fetch: (url: string) => wget(url, {}),
  }

  await testAllowed(t, stage, HOST, fetcher)
  await testDenied(t, stage, 'evil.denied.test', fetcher)

  const without = proxyVariables(`http://${stage.egress.listen}`)
  await testWithoutToken(t, stage, HOST, { ...fetcher, fetch: (url) => wget(url, without) })
  await testVariables(t, stage, fetcher.client, (scheme, address, variables) =>
    wget(`${scheme}://${address}/`, variables),
  )
})
