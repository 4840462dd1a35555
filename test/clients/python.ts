import { fileURLToPath } from 'node:url'
import tap from 'tap'
import {
  pages,
  testAllowed,
  testDenied,
  testVariables,
  testWithoutToken,
} from '../support/clients/fetches.ts'
import { lacks, lacksPython, PYTHON, versionOf } from '../support/clients/program.ts'
import type { Variables } from '../support/clients/run-client.ts'
import { openStage, proxyVariables } from '../support/clients/stage.ts'

const HOST = 'api.allowed.test'
const TOKEN = 'python-token'

for (const [name, module, script, version] of [
  [
    'Python urllib',
    'urllib.request',
    'fetch_urllib.py',
    'import platform; print(platform.python_version())',
  ],
  [
    'Python requests',
    'requests',
    'fetch_requests.py',
    'import requests; print(requests.__version__)',
  ],
] as const) {
  const skip = lacks('openssl') || lacksPython(module)
  await tap.test(name, { skip }, async (t) => {
    const denied = ['evil.denied.test']
    const stage = await openStage(t, { allowed: [HOST], denied, service: pages, token: TOKEN })
    const path = fileURLToPath(new URL(`../support/clients/${script}`, import.meta.url))
    const { caFile } = stage.authority
    const trust = { SSL_CERT_FILE: caFile, REQUESTS_CA_BUNDLE: caFile }
    const python = (url: string, variables: Variables) =>
      stage.run(PYTHON, ['-s', '-B', path, url], { ...trust, ...variables })
    const fetcher = {
      client: { name, version: versionOf(PYTHON, ['-s', '-c', version], /(\S+)/) },
      fetch: (url: string) => python(url, {}),
    }

    await testAllowed(t, stage, HOST, fetcher)
    await testDenied(t, stage, 'evil.denied.test', fetcher)

    const without = proxyVariables(`http://${stage.egress.listen}`)
    await testWithoutToken(t, stage, HOST, { ...fetcher, fetch: (url) => python(url, without) })
    await testVariables(t, stage, fetcher.client, (scheme, address, variables) =>
      python(`${scheme}://${address}/`, variables),
    )
  })
}
