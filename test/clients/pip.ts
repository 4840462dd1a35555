import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import tap from 'tap'
import { testVariables } from '../support/clients/fetches.ts'
import { lacks, lacksPython, PYTHON, versionOf } from '../support/clients/program.ts'
import { holdRecord } from '../support/clients/record.ts'
import type { Variables } from '../support/clients/run-client.ts'
import { openStage, refused, wasAskedForToken } from '../support/clients/stage.ts'
import { WHEEL, wheelIndex } from '../support/clients/wheel-index.ts'

const HOST = 'index.allowed.test'
const DENIED = 'evil.denied.test'
const TOKEN = 'pip-token'

await tap.test('pip', { skip: lacks('openssl') || lacksPython('pip') }, async (t) => {
  const { service, wheel } = wheelIndex(t)
  const denied = [DENIED, 'again.denied.test']
  const stage = await openStage(t, { allowed: [HOST], denied, service, token: TOKEN })
  const version = versionOf(PYTHON, ['-I', '-m', 'pip', '--version'], /^pip (\S+)/)
  const download = (origin: string, retries: number, variables: Variables = {}) => {
    const quiet = ['--isolated', '--disable-pip-version-check', '--no-cache-dir', '--no-input']
    const where = ['--index-url', `${origin}/simple/`, '--cert', stage.authority.caFile]
    const plain = ['--trusted-host', new URL(origin).hostname, '--retries', String(retries)]
    const what = ['--no-deps', '-d', join(stage.folder, 'wheels'), 'small-thing']
    const args = ['-I', '-m', 'pip', ...quiet, 'download', ...where, ...plain, ...what]
    return stage.run(PYTHON, args, { PIP_CONFIG_FILE: '/dev/null', ...variables })
  }

  await t.test('downloads a wheel', async (sub) => {
    const ran = await download(`https://${HOST}`, 0)
    sub.equal(ran.code, 0, ran.output)
    sub.notOk(wasAskedForToken(stage), 'the token is shown with the first request')
    sub.ok(readFileSync(join(stage.folder, 'wheels', WHEEL)).equals(wheel), 'whole and unchanged')
    sub.ok(stage.upstream.seen.every(({ secure }) => secure))
  })

  for (const [name, host, retries] of [
    ['pip', 'again.denied.test', 1],
    ['pip --retries 0', DENIED, 0],
  ] as const) {
    for (const [scheme, column, port, via] of [
      ['https', 'connect', 443, 'connect'],
      ['http', 'plain', 80, 'forward'],
    ] as const) {
      await t.test(`${name} is refused ${scheme}`, async (sub) => {
        const expected = { host, port, via, reason: 'no-rule' } as const
        const ran = await refused(sub, stage, expected, () =>
          download(`${scheme}://${host}`, retries),
        )
        const shown = { outcome: `exit ${ran.code}`, text: ran.output, host, port }
        holdRecord(sub, { name, version }, column, shown)
      })
    }
  }

  await testVariables(t, stage, { name: 'pip', version }, (scheme, address, variables) =>
    download(`${scheme}://${address}`, 0, variables),
  )
})
