import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import tap, { type Test } from 'tap'
import { testVariables } from '../support/clients/fetches.ts'
import { lacks, PROGRAM_PATH, versionOf } from '../support/clients/program.ts'
import { holdRecord } from '../support/clients/record.ts'
import { runClient, type Variables } from '../support/clients/run-client.ts'
import { openStage, refused, type Stage, wasAskedForToken } from '../support/clients/stage.ts'
import type { Service } from '../support/clients/upstream.ts'

const HOST = 'archive.allowed.test'
const DENIED = 'evil.denied.test'
const TOKEN = 'apt-token'
const CONTROL = `Package: small-thing
Version: 1.2.3
Architecture: all
Maintainer: tester <tester@allowed.test>
Description: one file
`

/** A flat repository with one package. */
async function repository(t: Test): Promise<Service> {
  const folder = mkdtempSync(join(tmpdir(), 'egress-deb-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  put(join(folder, 'tree/DEBIAN/control'), CONTROL)
  put(join(folder, 'tree/usr/share/small-thing/origin'), 'came through the proxy\n')
  const args = ['--root-owner-group', '-Zgzip', '--build', 'tree', 'small-thing.deb']
  const env = { PATH: PROGRAM_PATH }
  const built = await runClient('dpkg-deb', args, { env, cwd: folder })
  if (built.code !== 0) throw new Error(built.output)
  const archive = readFileSync(join(folder, 'small-thing.deb'))
  const size = `Size: ${archive.length}\nSHA256: ${sha256(archive)}\n`
  const packages = `${CONTROL}Filename: ./small-thing.deb\n${size}`
  const listed = ` ${sha256(packages)} ${Buffer.byteLength(packages)} Packages\n`
  const release = `Date: ${new Date().toUTCString()}\nSHA256:\n${listed}`
  const files: Record<string, string | Buffer> = {
    '/./Release': release,
    '/./Packages': packages,
    '/./small-thing.deb': archive,
  }
  return {
    request: ({ url = '' }, response) => {
      const file = files[url] ?? files[url.replace(/^\//, '/./')]
      response.statusCode = file === undefined ? 404 : 200
      response.end(file)
    },
  }
}

function put(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, text)
}

function sha256(data: string | Buffer): string {
  return createHash('sha256').update(data).digest('hex')
}

/** A system of its own for apt and dpkg: nothing of the machine is read or changed. */
function makeSystem(stage: Stage, name: string, origin: string) {
  const root = join(stage.folder, name)
  const at = (path: string) => join(root, path)
  put(at('etc/apt/sources.list'), `deb [trusted=yes] ${origin}/ ./\n`)
  put(at('var/lib/dpkg/status'), '')
  for (const folder of [
    'etc/apt/apt.conf.d',
    'etc/apt/preferences.d',
    'etc/apt/sources.list.d',
    'etc/apt/trusted.gpg.d',
    'var/lib/apt/lists/partial',
    'var/cache/apt/archives/partial',
    'var/lib/dpkg/updates',
    'var/lib/dpkg/info',
    'var/log/apt',
  ]) {
    mkdirSync(at(folder), { recursive: true })
  }
  const forced = ['not-root', 'bad-path', 'script-chrootless', 'unsafe-io']
  const dpkg = [
    `--root=${root}`,
    `--admindir=${at('var/lib/dpkg')}`,
    `--log=${at('var/log/dpkg.log')}`,
    ...forced.map((what) => `--force-${what}`),
  ]
  // This file is read before those of /etc/apt, and leads apt away from them.
  put(
    at('apt.conf'),
    [
      `Dir "${root}/";`,
      `Dir::State::status "${at('var/lib/dpkg/status')}";`,
      'Dir::Bin::methods "/usr/lib/apt/methods";',
      `Acquire::https::CaInfo "${stage.authority.caFile}";`,
      'Acquire::Retries "0";',
      'Acquire::Languages "none";',
      'APT::Sandbox::User "root";',
      'APT::Sandbox::Seccomp "false";',
      ...dpkg.map((option) => `DPkg::Options:: "${option}";`),
    ].join('\n'),
  )
  return {
    root,
    apt: (args: readonly string[], variables: Variables = {}) =>
      stage.run('apt-get', ['-q', '-y', ...args], {
        APT_CONFIG: at('apt.conf'),
        DEBIAN_FRONTEND: 'noninteractive',
        ...variables,
      }),
  }
}

const skip = lacks('apt-get', 'dpkg', 'dpkg-deb', 'openssl')

await tap.test('apt-get', { skip }, async (t) => {
  const service = await repository(t)
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
