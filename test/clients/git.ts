import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import tap, { type Test } from 'tap'
import { testVariables } from '../support/clients/fetches.ts'
import { gitService } from '../support/clients/git-service.ts'
import { lacks, PROGRAM_PATH, versionOf } from '../support/clients/program.ts'
import { holdRecord } from '../support/clients/record.ts'
import { runClient } from '../support/clients/run-client.ts'
import { openStage, proxyVariables, refused } from '../support/clients/stage.ts'

const skip = lacks('git', 'openssl')
const HOST = 'git.allowed.test'
const DENIED = 'evil.denied.test'
const TOKEN = 'git-token'

const IDENTITY = {
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_TERMINAL_PROMPT: '0',
  GIT_AUTHOR_NAME: 'tester',
  GIT_AUTHOR_EMAIL: 'tester@allowed.test',
  GIT_COMMITTER_NAME: 'tester',
  GIT_COMMITTER_EMAIL: 'tester@allowed.test',
}

/** A folder with `project.git`, which has one commit and may be pushed to. */
async function makeRepository(t: Test): Promise<{ root: string; commit: string }> {
  const root = mkdtempSync(join(tmpdir(), 'egress-git-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  const work = join(root, 'work')
  mkdirSync(work)
  const env = { PATH: PROGRAM_PATH, HOME: root, ...IDENTITY }
  const git = async (...args: string[]) => {
    const ran = await runClient('git', args, { env, cwd: work })
    if (ran.code !== 0) throw new Error(ran.output)
    return ran.stdout.trim()
  }
  await git('init', '-q', '-b', 'main')
  writeFileSync(join(work, 'readme.txt'), 'cloned through the proxy\n')
  await git('add', '.')
  await git('commit', '-q', '-m', 'first')
  await git('clone', '-q', '--bare', work, join(root, 'project.git'))
  await git('-C', join(root, 'project.git'), 'config', 'http.receivepack', 'true')
  return { root, commit: await git('rev-parse', 'HEAD') }
}

await tap.test('git', { skip }, async (t) => {
  const { root, commit } = await makeRepository(t)
  const service = gitService(root)
  const stage = await openStage(t, { allowed: [HOST], denied: [DENIED], service })
  const trust = { ...IDENTITY, GIT_SSL_CAINFO: stage.authority.caFile }
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
  const { root, commit } = await makeRepository(t)
  const service = gitService(root)
  const stage = await openStage(t, { allowed: [HOST], denied: [], service, token: TOKEN })
  const trust = { ...IDENTITY, GIT_SSL_CAINFO: stage.authority.caFile }
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
      const head = await stage.run('git', ['-C', copy, 'rev-parse', 'HEAD'], IDENTITY)
      sub.equal(head.stdout.trim(), commit)
    })
  }
})
