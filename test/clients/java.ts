import { fileURLToPath } from 'node:url'
import tap from 'tap'
import { page, pages, testAllowed, testDenied } from '../support/clients/fetches.ts'
import { lacks, versionOf } from '../support/clients/program.ts'
import { openStage, type Stage } from '../support/clients/stage.ts'

const HOST = 'api.allowed.test'
const TOKEN = 'java-token'
const SOURCE = fileURLToPath(new URL('../support/clients/Fetch.java', import.meta.url))
const skip = lacks('java', 'javac', 'openssl')

/** Java reads no proxy variable: the program is given the proxy as an argument. */
function fetchFrom(stage: Stage, url: string, properties: string[] = [], user: string[] = []) {
  const { egress, authority } = stage
  const quick = ['-XX:-UsePerfData', '-XX:TieredStopAtLevel=1']
  const args = [...quick, ...properties, SOURCE, url, authority.caFile, egress.listen, ...user]
  return stage.run('java', args)
}

await tap.test('Java HttpClient', { skip }, async (t) => {
  const denied = ['evil.denied.test']
  const stage = await openStage(t, { allowed: [HOST], denied, service: pages })
  const fetcher = {
    client: { name: 'Java HttpClient', version: versionOf('java', ['--version'], /^\S+ (\S+)/) },
    fetch: (url: string) => fetchFrom(stage, url),
  }

  await testAllowed(t, stage, HOST, fetcher)
  await testDenied(t, stage, 'evil.denied.test', fetcher)
})

await tap.test('Java HttpClient with a token', { skip }, async (t) => {
  const stage = await openStage(t, { allowed: [HOST], denied: [], service: pages, token: TOKEN })
  const user = [`agent:${TOKEN}`]
  const allowBasic = '-Djdk.http.auth.tunneling.disabledSchemes='

  await t.test('does not show it for a tunnel, as Basic is off there', async (sub) => {
    const before = stage.upstream.connections()
    const ran = await fetchFrom(stage, `https://${HOST}/file`, [], user)
    sub.equal(ran.code, 1)
    sub.match(ran.output, '407')
    sub.equal(stage.upstream.connections(), before, 'the upstream saw nothing')
  })

  await t.test('shows it for a tunnel where a property allows Basic', async (sub) => {
    const ran = await fetchFrom(stage, `https://${HOST}/file`, [allowBasic], user)
    sub.strictSame([ran.code, ran.stdout], [0, page(HOST, '/file')], ran.output)
  })

  await t.test('shows it for a plain request', async (sub) => {
    const ran = await fetchFrom(stage, `http://${HOST}/file`, [], user)
    sub.strictSame([ran.code, ran.stdout], [0, page(HOST, '/file')], ran.output)
  })
})
