import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import tap from 'tap'
import { testVariables } from '../support/clients/fetches.ts'
import { npmRegistry } from '../support/clients/npm-registry.ts'
import { lacks, versionOf } from '../support/clients/program.ts'
import { holdRecord } from '../support/clients/record.ts'
import type { Variables } from '../support/clients/run-client.ts'
import { openStage, refused, wasAskedForToken } from '../support/clients/stage.ts'

const HOST = 'registry.allowed.test'
const DENIED = 'evil.denied.test'
const TOKEN = 'npm-token'

await tap.test('npm', { skip: lacks('npm', 'tar', 'openssl') }, async (t) => {
  const service = npmRegistry(t)
  const stage = await openStage(t, { allowed: [HOST], denied: [DENIED], service, token: TOKEN })
  const client = { name: 'npm', version: versionOf('npm', ['--version'], /(\S+)/) }
  const install = (name: string, origin: string, variables: Variables = {}) => {
    const project = join(stage.folder, name)
    mkdirSync(project)
    writeFileSync(join(project, 'package.json'), '{"private":true}')
    return stage.run('npm', ['--prefix', project, 'install', 'small-thing'], {
      NPM_CONFIG_REGISTRY: `${origin}/`,
      NPM_CONFIG_CAFILE: stage.authority.caFile,
      NPM_CONFIG_CACHE: join(stage.folder, 'cache'),
      NPM_CONFIG_USERCONFIG: join(stage.folder, 'no-user-config'),
      NPM_CONFIG_GLOBALCONFIG: join(stage.folder, 'no-global-config'),
      NPM_CONFIG_AUDIT: 'false',
      NPM_CONFIG_FUND: 'false',
      NPM_CONFIG_UPDATE_NOTIFIER: 'false',
      NPM_CONFIG_IGNORE_SCRIPTS: 'true',
      ...variables,
    })
  }

  await t.test('installs a package', async (sub) => {
    const ran = await install('allowed', `https://${HOST}`)
    sub.equal(ran.code, 0, ran.output)
    sub.notOk(wasAskedForToken(stage), 'the token is shown with the first request')
    const main = join(stage.folder, 'allowed/node_modules/small-thing/index.js')
    sub.equal(readFileSync(main, 'utf8'), "module.exports = 'came through the proxy'\n")
    sub.strictSame(
      stage.upstream.seen.map(({ secure, url }) => [secure, url]),
      [
        [true, '/small-thing'],
        [true, '/small-thing/-/small-thing-1.2.3.tgz'],
      ],
    )
  })

  for (const [scheme, column, port, via] of [
    ['https', 'connect', 443, 'connect'],
    ['http', 'plain', 80, 'forward'],
  ] as const) {
    await t.test(`is refused ${scheme}`, async (sub) => {
      const expected = { host: DENIED, port, via, reason: 'no-rule' } as const
      const ran = await refused(sub, stage, expected, () =>
        install(scheme, `${scheme}://${DENIED}`),
      )
      const outcome = `exit ${ran.code}`
      holdRecord(sub, client, column, { outcome, text: ran.output, host: DENIED, port })
    })
  }

  let count = 0
  await testVariables(t, stage, client, (scheme, address, variables) =>
    install(`variable-${++count}`, `${scheme}://${address}`, variables),
  )
})
