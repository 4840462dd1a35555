import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import tap from 'tap'
import { makeAptSystem } from '../support/clients/apt-system.ts'
import { debRepository } from '../support/clients/deb-repository.ts'
import { testVariables } from '../support/clients/fetches.ts'
import { lacks, versionOf } from '../support/clients/program.ts'
import { holdRecord } from '../support/clients/record.ts'
import type { Variables } from '../support/clients/run-client.ts'
import { openStage, refused, type Stage, wasAskedForToken } from '../support/clients/stage.ts'

const HOST = 'archive.allowed.test'
const DENIED = 'evil.denied.test'
const TOKEN = 'apt-token'

/** A system of its own that fetches from `origin`. */
function makeSystem(stage: Stage, name: string, origin: string) {
  const root = join(stage.folder, name)
  const config = makeAptSystem(root, stage.authority.caFile, origin)
  return {
    root,
    apt: (args: readonly string[], variables: Variables = {}) =>
      stage.run('apt-get', ['-q', '-y', ...args], {
        APT_CONFIG: config,
        DEBIAN_FRONTEND: 'noninteractive',
        ...variables,
      }),
  }
}

const skip = lacks('apt-get', 'dpkg', 'dpkg-deb', 'openssl')

await tap.test('apt-get', { skip }, async (t) => {
  const service = await debRepository(t)
  const denied = [DENIED]
  const stage = await openStage(t, { allowed: [HOST], denied, service, token: TOKEN })
  const client = { name: 'apt-get', version: versionOf('apt-get', ['--version'], /^apt (\S+)/) }

  for (const [scheme, column, port, via] of [
    ['https', 'connect', 443, 'connect'],
    ['http', 'plain', 80, 'forward'],
  ] as const) {
    await t.test(`updates and installs over ${scheme}`, async (sub) => {
      const { root, apt } = makeSystem(stage, `${scheme}-allowed`, `${scheme}://${HOST}`)
      const from = stage.upstream.seen.length
      const updated = await apt(['update'])
      sub.equal(updated.code, 0, updated.output)
      const installed = await apt(['install', 'small-thing'])
      sub.equal(installed.code, 0, installed.output)
      sub.notOk(wasAskedForToken(stage), 'the token is shown with the first request')
      const origin = readFileSync(join(root, 'usr/share/small-thing/origin'), 'utf8')
      sub.equal(origin, 'came through the proxy\n')
      sub.match(readFileSync(join(root, 'var/lib/dpkg/status'), 'utf8'), 'install ok installed')
      const seen = stage.upstream.seen.slice(from)
      sub.ok(seen.some(({ url }) => url.endsWith('.deb')))
      sub.ok(seen.every(({ secure }) => secure === (scheme === 'https')))
    })

    await t.test(`is refused ${scheme}`, async (sub) => {
      const { apt } = makeSystem(stage, `${scheme}-denied`, `${scheme}://${DENIED}`)
      const expected = { host: DENIED, port, via, reason: 'no-rule' } as const
      const ran = await refused(sub, stage, expected, () => apt(['update']))
      const outcome = `exit ${ran.code}`
      holdRecord(sub, client, column, { outcome, text: ran.output, host: DENIED, port })
    })
  }

  await t.test('takes a refused CONNECT for a fault where it is told to', async (sub) => {
    const { apt } = makeSystem(stage, 'strict', `https://${DENIED}`)
    const ran = await apt(['-o', 'APT::Update::Error-Mode=any', 'update'])
    sub.equal(ran.code, 100, ran.output)
  })

  let count = 0
  await testVariables(t, stage, client, (scheme, address, variables) => {
    const { apt } = makeSystem(stage, `variable-${++count}`, `${scheme}://${address}`)
    return apt(['update'], variables)
  })
})
