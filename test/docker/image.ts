import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { buildProjectImage, docker, NO_ENGINE, uniqueName } from '../support/docker.ts'
import { untilSo } from '../support/door.ts'
import { openRaw } from '../support/raw-client.ts'

// The image as somebody runs it who wants a proxy: whatever is taken from it that it does not need.

const TOKEN = 'a-token-of-the-test-a-token-of-the-test'
const STRICT = [
  '--read-only',
  '--cap-drop=ALL',
  '--security-opt=no-new-privileges',
  '--pids-limit=64',
]

async function startImage(
  t: Test,
  options: readonly string[],
  ...args: readonly string[]
): Promise<string> {
  const image = await buildProjectImage()
  const name = uniqueName('image')
  t.teardown(() => docker('rm', '-f', '-v', name).catch(() => undefined))
  await docker('run', '-d', '--name', name, ...STRICT, ...options, image, ...args)
  return name
}

const inspect = (name: string, format: string) => docker('inspect', '-f', `{{${format}}}`, name)

tap.setTimeout(120_000)

void tap.test('a clone has all that the Dockerfile takes, whatever stage it is for', async (t) => {
  // An engine without buildx builds every stage.
  const root = path.resolve(import.meta.dirname, '../..')
  const lines = (name: string) => readFileSync(path.join(root, name), 'utf8').split('\n')
  const sources = lines('Dockerfile')
    .filter((line) => /^COPY (?!--from)/.test(line))
    .flatMap((line) => line.split(' ').slice(1, -1))
  const left = new Set(lines('.dockerignore'))
  const tracked = execFileSync('git', ['ls-files'], { cwd: root, encoding: 'utf8' }).split('\n')
  t.ok(sources.length > 5)
  for (const source of sources) {
    t.ok(
      tracked.some((file) => file === source || file.startsWith(`${source}/`)),
      source,
    )
    t.notOk(left.has(source.split('/')[0] ?? ''), source)
  }
})

void tap.test(
  'it serves, is healthy, and ends when it is told to',
  { skip: NO_ENGINE },
  async (t) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'image-'))
    t.teardown(() => rmSync(folder, { recursive: true }))
    // The user of the image reads it.
    chmodSync(folder, 0o755)
    writeFileSync(path.join(folder, 'token'), `${TOKEN}\n`)
    writeFileSync(path.join(folder, 'policy.yaml'), 'rules: ["allowed.test"]\n')
    const name = await startImage(
      t,
      ['-p', '127.0.0.1:0:3128', '-v', `${folder}:/config:ro`, '--health-interval=1s'],
      ...'serve --listen 0.0.0.0:3128 --events - --policy /config/policy.yaml'.split(' '),
      '--token-file=/config/token',
      '--resolve=allowed.test:127.0.0.1:9',
    )
    await untilSo(async () => (await inspect(name, '.State.Health.Status')) === 'healthy')
    t.equal(await docker('exec', name, 'id', '-u'), '65532', 'it is not root')
    await t.rejects(docker('exec', name, 'touch', '/app/x'), 'it writes nothing')
    const address = await docker('port', name, '3128')
    const port = Number(address.split(':').at(-1))
    const ask = async (target: string, token: string) => {
      const head = `CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\nProxy-Authorization: Bearer ${token}\r\n\r\n`
      return (await (await openRaw(t, port, { send: head })).answer()).status
    }
    t.equal(await ask('denied.test:443', TOKEN), 403)
    t.equal(await ask('denied.test:443', 'x'), 407)
    t.equal(await ask('allowed.test:443', TOKEN), 502, 'nobody is there')
    await docker('stop', '--time=8', name)
    t.equal(await inspect(name, '.State.ExitCode'), '0', 'a proper end')
    const events = (await docker('logs', name)).split('\n').filter((line) => line.startsWith('{'))
    const types = events.map((line) => (JSON.parse(line) as { type: string }).type)
    t.strictSame(
      types,
      ['policy_loaded', 'network_blocked', 'network_blocked', 'network_blocked'],
      'a health check is no event',
    )
  },
)

void tap.test('behind an init it is healthy as well', { skip: NO_ENGINE }, async (t) => {
  const words = 'serve --listen=0.0.0.0:8080 --preset none --token secret'
  const name = await startImage(t, ['--init', '--health-interval=1s'], ...words.split(' '))
  await untilSo(async () => (await inspect(name, '.State.Health.Status')) === 'healthy')
  await docker('stop', '--time=8', name)
  t.equal(await inspect(name, '.State.ExitCode'), '0')
})

void tap.test('one that does not serve is not healthy', { skip: NO_ENGINE }, async (t) => {
  const name = await startImage(
    t,
    ['--health-interval=1s', '--health-retries=1', '--entrypoint=sleep'],
    '60',
  )
  await untilSo(async () => (await inspect(name, '.State.Health.Status')) === 'unhealthy')
  const log = await inspect(name, 'json .State.Health.Log')
  t.match(log, 'ECONNREFUSED')
})

void tap.test(
  'without a word it says how it is used, and open to all it does not start',
  { skip: NO_ENGINE },
  async (t) => {
    const image = await buildProjectImage()
    t.match(await docker('run', '--rm', ...STRICT, image), /^Usage: iterion-egress serve/)
    const words = ['serve', '--listen', '0.0.0.0:3128', '--preset', 'none']
    await t.rejects(docker('run', '--rm', ...STRICT, image, ...words), {
      message: /without a token/,
    })
  },
)

void tap.test('there is nothing in it but what it needs', { skip: NO_ENGINE }, async (t) => {
  const image = await buildProjectImage()
  const run = (...words: readonly string[]) =>
    docker('run', '--rm', '--entrypoint', words[0] ?? '', image, ...words.slice(1))
  t.strictSame((await run('ls', '-A', '/app')).split('\n'), [
    'bin',
    'dist',
    'package.json',
    'presets',
  ])
  t.strictSame((await run('ls', '/app/dist')).split('\n'), ['program'])
  t.equal(await run('find', '/app', '-user', '65532'), '', 'its user owns nothing of it')
  t.equal(
    await run('find', '/app', '-perm', '/022', '!', '-type', 'l'),
    '',
    'and may write nothing',
  )
})
