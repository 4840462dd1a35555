import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import tap from 'tap'
import { testVariables } from '../support/clients/fetches.ts'
import { GIT_IDENTITY, makeServedRepository } from '../support/clients/served-repository.ts'
import { gitService } from '../support/clients/git-service.ts'
import { lacks, versionOf } from '../support/clients/program.ts'
import { holdRecord } from '../support/clients/record.ts'
import { openStage, proxyVariables, refused } from '../support/clients/stage.ts'

const skip = lacks('git', 'openssl')
const HOST = 'git.allowed.test'
const DENIED = 'evil.denied.test'
const TOKEN = 'git-token'

await tap.test('git', { skip }, async (t) => {
  const { root, commit } = await makeServedRepository(t)
  const service = gitService(root)
  const stage = await openStage(t, { allowed: [HOST], denied: [DENIED], service })
  const trust = { ...GIT_IDENTITY, GIT_SSL_CAINFO: stage.authority.caFile }
  const git = (...args: string[]) => stage.run('git', args, trust)
  const client = { name: 'git', version: versionOf('git', ['--version'], /(\d\S+)/) }

  for (const scheme of ['https', 'http']) {
    const copy = join(stage.folder, scheme)

    await t.test(`clones over ${scheme}`, async (sub) => {
      const ran = await git('clone', `${scheme}://${HOST}/project.git`, copy)
      sub.equal(ran.code, 0, ran.output)
      sub.equal(readFileSync(join(copy, 'readme.txt'), 'utf8'), 'cloned through the proxy\n')
      const head = await git('-C', copy, 'rev-parse', 'HEAD')
      sub.equal(head.stdout.trim(), commit)
    })

    await t.test(`pushes over ${scheme}`, async (sub) => {
      await git('-C', copy, 'commit', '-q', '--allow-empty', '-m', scheme)
      const ran = await git('-C', copy, 'push', '-q', 'origin', `HEAD:refs/heads/${scheme}`)
      sub.equal(ran.code, 0, ran.output)
      const pushed = await git('-C', join(root, 'project.git'), 'rev-parse', scheme)
      const head = await git('-C', copy, 'rev-parse', 'HEAD')
      sub.equal(pushed.stdout, head.stdout)
    })
  }

  for (const [scheme, column, port, via] of [
    ['https', 'connect', 443, 'connect'],
    ['http', 'plain', 80, 'forward'],
  ] as const) {
    await t.test(`is refused ${scheme}`, async (sub) => {
      const expected = { host: DENIED, port, via, reason: 'no-rule' } as const
      const copy = join(stage.folder, 'none')
      const ran = await refused(sub, stage, expected, () =>
        git('clone', '-q', `${scheme}://${DENIED}/project.git`, copy),
      )
      const outcome = `exit ${ran.code}`
      holdRecord(sub, client, column, { outcome, text: ran.output, host: DENIED, port })
    })
  }

  await t.test('shows the reason phrase where it is told to be verbose', async (sub) => {
    const verbose = { ...trust, GIT_CURL_VERBOSE: '1' }
    const ran = await stage.run('git', ['ls-remote', `https://${DENIED}/project.git`], verbose)
    sub.equal(ran.code, 128)
    sub.match(ran.output, `403 egress denied: no rule allows ${DENIED}:443`)
  })

  await testVariables(t, stage, client, (scheme, address, variables) =>
    stage.run('git', ['ls-remote', `${scheme}://${address}/project.git`], {
      ...trust,
      ...variables,
    }),
  )
})

await tap.test('git with a token', { skip }, async (t) => {
  const { root, commit } = await makeServedRepository(t)
  const service = gitService(root)
  const stage = await openStage(t, { allowed: [HOST], denied: [], service, token: TOKEN })
  const trust = { ...GIT_IDENTITY, GIT_SSL_CAINFO: stage.authority.caFile }
  const clone = (scheme: string, copy: string, proxy: string) =>
    stage.run('git', ['clone', '-q', `${scheme}://${HOST}/project.git`, copy], {
      ...trust,
      ...proxyVariables(proxy),
    })

  for (const [scheme, via, port] of [
    ['https', 'connect', 443],
    ['http', 'forward', 80],
  ] as const) {
    const expected = { host: HOST, port, via, reason: 'auth' } as const

    await t.test(`${scheme}: without the token nothing is cloned`, async (sub) => {
      const copy = join(stage.folder, 'none')
      const without = `http://${stage.egress.listen}`
      const ran = await refused(sub, stage, expected, () => clone(scheme, copy, without))
      sub.equal(ran.code, 128)
      sub.match(ran.output, '407')
    })

    await t.test(`${scheme}: the token in the URL is shown after a 407`, async (sub) => {
      const copy = join(stage.folder, scheme)
      const ran = await clone(scheme, copy, stage.egress.proxyUrl)
      sub.equal(ran.code, 0, ran.output)
      const head = await stage.run('git', ['-C', copy, 'rev-parse', 'HEAD'], GIT_IDENTITY)
      sub.equal(head.stdout.trim(), commit)
    })
  }
})
