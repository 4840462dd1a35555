import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { RUN_LABEL } from '../../src/sandbox/labels.ts'
import { docker, NO_ENGINE, TEST_IMAGE, uniqueName } from '../support/docker.ts'
import { type Desk, openDesk, ROOT } from '../support/sandbox-run.ts'
import { NO_USERS, openUserDesk, ordinaryUser } from '../support/users.ts'

// Cases of the book's groups 6 and 7 that have no other place; test/case-book/coverage.ts says where the others are.

/** PATH with a docker of the test's own: a line for sh, and after it the real one. */
function pathWith({ folder }: Desk, line: string): string {
  const bin = path.join(folder, 'bin')
  mkdirSync(bin, { recursive: true })
  const real = execFileSync('sh', ['-c', 'command -v docker'], { encoding: 'utf8' }).trim()
  writeFileSync(path.join(bin, 'docker'), `#!/bin/sh\n${line}\nexec ${real} "$@"\n`)
  chmodSync(path.join(bin, 'docker'), 0o755)
  chmodSync(bin, 0o755)
  return `${bin}:${process.env['PATH']}`
}

function writePolicy({ workspace }: Desk): void {
  writeFileSync(path.join(workspace, 'policy.yaml'), 'rules: [allowed.test]\n')
}

/** The containers of a run, also those that have ended. */
const containersOf = (id: string) => docker('ps', '-aq', '--filter', `label=${RUN_LABEL}=${id}`)

async function waitFor(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (let i = 0; i < 400; i++) {
    if (await isSo()) return
    await new Promise((resolve) => setTimeout(resolve, 25))
  }
  throw new Error(`not in time: ${what}`)
}

/** The addresses that a process listens at in the network of this machine, as `HEX:PORT`. */
function listenersOf(pid: number): string[] {
  const sockets = new Set(
    readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return [/^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1]]
      } catch {
        return []
      }
    }),
  )
  return ['tcp', 'tcp6'].flatMap((table) =>
    readFileSync(`/proc/${pid}/net/${table}`, 'utf8')
      .split('\n')
      .map((line) => line.trim().split(/\s+/))
      .filter(([, , , state, , , , , , inode]) => state === '0A' && sockets.has(inode))
      .map(([, local = '']) => local),
  )
}

void tap.test(
  'D-05: a sealed run listens at no address of this machine, an advisory one at the gateway alone',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    writePolicy(desk)
    for (const door of ['auto', 'advisory']) {
      const command = [
        'sh',
        '-c',
        'curl -s -o /dev/null -w "%{http_code}\\n" http://x.test; read x',
      ]
      const args = ['run', '--policy', 'policy.yaml', '--door', door, '-i', '--image', TEST_IMAGE]
      const running = desk.start([...args, '--', ...command])
      await running.hears('403')
      const listeners = listenersOf(running.child.pid ?? 0)
      running.child.stdin?.end('\n')
      t.match(await running.done, { code: 0 })
      if (door === 'auto') t.strictSame(listeners, [])
      else {
        const [address = ''] = listeners
        t.equal(listeners.length, 1)
        t.notMatch(address, /^(?:00000000|0100007F):/, 'neither every address nor loopback')
      }
    }
  },
)

void tap.test(
  'D-09: a pull that sleeps and is deaf to SIGTERM is killed with what it started',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const pids = path.join(desk.folder, 'pids')
    const deaf = `trap '' TERM INT HUP; sleep 300 & echo "$$ $!" > ${pids}; wait; wait; exit 0`
    const PATH = pathWith(desk, `if [ "$1" = pull ]; then ${deaf}; fi`)
    const started = Date.now()
    const { code, stderr } = await desk.run(
      ['run', '--image', '127.0.0.1:9/never:1', '--', 'true'],
      { env: { PATH, ITERION_SANDBOX_PULL_TIMEOUT: '1s' } },
    )
    t.equal(code, 125)
    t.match(stderr, /SANDBOX_SETUP_TIMEOUT.*ITERION_SANDBOX_PULL_TIMEOUT/)
    t.ok(Date.now() - started < 20_000)
    const [shell = '', sleeper = ''] = readFileSync(pids, 'utf8').trim().split(' ')
    for (const pid of [shell, sleeper]) {
      await waitFor(`${pid} is gone`, () => !existsSync(`/proc/${pid}`))
    }
    t.strictSame(desk.leftovers(), [])
  },
)

void tap.test(
  'E-19: the command line of the engine gets a short list of variables',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    writePolicy(desk)
    const seen = (name: string) => readFileSync(path.join(desk.folder, name), 'utf8')
    const copy = (name: string) => `tr '\\0' '\\n' < /proc/$$/${name} >> ${desk.folder}/${name}`
    const PATH = pathWith(desk, `${copy('environ')}; ${copy('cmdline')}`)
    const big = Object.fromEntries(['A', 'B', 'C'].map((name) => [name, 'y'.repeat(100_000)]))
    const env = { ...big, PATH, HTTP_PROXY: 'http://corp.test:8080', NO_PROXY: '*', TOKEN: 'own' }
    const args = ['run', '--policy', 'policy.yaml', '--image', TEST_IMAGE, '--', 'true']
    t.match(await desk.run(args, { env }), { code: 0 })
    const lines = seen('environ').trimEnd().split('\n')
    t.strictSame(
      new Set(lines.map((line) => line.split('=')[0])),
      new Set(['PATH', 'HOME', 'TMPDIR', 'LC_ALL']),
    )
    t.notMatch(seen('cmdline'), /corp\.test|yyyy/)
    const elsewhere = await desk.run(args, { env: { DOCKER_CONTEXT: 'other' } })
    t.match(elsewhere, { code: 125, stderr: /SANDBOX_ENGINE_UNREACHABLE/ })
  },
)

void tap.test(
  'D-29: a user who stands in the metadata of the image alone changes nobody’s files',
  { skip: NO_USERS },
  async (t) => {
    const desk = openUserDesk(t)
    const { uid, gid } = ordinaryUser()
    const image = `${uniqueName('image')}:latest`
    const metadata = JSON.stringify([{ remoteUser: 'worker', containerUser: 'root' }])
    execFileSync('docker', ['build', '--quiet', '--tag', image, '-'], {
      input: `FROM ${TEST_IMAGE}\nRUN useradd --uid 4242 worker\nLABEL devcontainer.metadata='${metadata}'\n`,
    })
    t.teardown(() => docker('rmi', '-f', image))
    execFileSync('git', ['init', '--quiet', desk.workspace])
    const files = {
      '.devcontainer.json': { image },
      'workflow.yaml': {
        name: 'w',
        sandbox: { mode: 'auto', network: 'open' },
        nodes: [{ id: 'n', command: 'touch by-repository; id -u' }],
      },
    }
    for (const [name, content] of Object.entries(files)) {
      writeFileSync(path.join(desk.workspace, name), JSON.stringify(content))
    }
    execFileSync('chown', ['-R', `${uid}:${gid}`, desk.workspace])
    const command = ['--', 'sh', '-c', 'touch by-operator; id -u']
    for (const args of [
      ['run', '--image', image, ...command],
      ['run', 'workflow.yaml'],
    ]) {
      const { code, stdout, stderr } = await desk.run(args)
      t.match({ code, stdout }, { code: 0, stdout: `${uid}\n` }, stderr)
    }
    for (const name of ['by-operator', 'by-repository']) {
      t.match(statSync(path.join(desk.workspace, name)), { uid, gid }, name)
    }
  },
)

void tap.test(
  'D-31: what is missing of the network ends the run, and nothing of it has run',
  { skip: NO_ENGINE },
  async (t) => {
    const answers = (text: string) => `case "$*" in *Gateway*) echo ${text}; exit 0;; esac`
    for (const [what, line, door, stderr] of [
      [
        'no gateway',
        answers(''),
        'advisory',
        /\[SANDBOX_SETUP_FAILED\] the container is on no bridge/,
      ],
      // TEST-NET-1: an address that nobody has, at which nothing can be bound.
      ['no address to bind', answers('192.0.2.1'), 'advisory', /192\.0\.2\.1/],
      ['no network', '[ "$1" = run ] && { echo no network >&2; exit 125; }', 'auto', /no network/],
    ] as const) {
      const desk = openDesk(t)
      writePolicy(desk)
      const args = ['run', '--policy', 'policy.yaml', '--door', door, '--image', TEST_IMAGE]
      const ended = await desk.run([...args, '--', 'touch', 'ran'], {
        env: { PATH: pathWith(desk, line) },
      })
      t.match(ended, { code: 125, stdout: '', stderr }, what)
      t.notOk(existsSync(path.join(desk.workspace, 'ran')), what)
      t.notMatch(desk.record(), { status: 'finished' })
      t.equal(await containersOf(desk.record().id), '', what)
      t.strictSame(desk.leftovers(), [], what)
    }
  },
)

void tap.test(
  'D-32: a proxy that crashes takes its container along',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    writePolicy(desk)
    const program = path.join(desk.folder, 'crashing.mjs')
    writeFileSync(
      program,
      `process.on('SIGUSR2', () => setTimeout(() => { throw new Error('crash of the test') }))
await import(${JSON.stringify(path.join(ROOT, 'bin/iterion-egress.js'))})
`,
    )
    const script = `while :; do curl -s -m 1 -o /dev/null -w '%{http_code}\\n' http://denied.test/ >> asked; sleep 0.1; done`
    const args = ['run', '--policy', 'policy.yaml', '--image', TEST_IMAGE, '--', 'sh', '-c']
    const running = desk.start([...args, `echo up; ${script}`], { program })
    await running.hears('up')
    const asked = path.join(desk.workspace, 'asked')
    await waitFor('it asks', () => existsSync(asked) && readFileSync(asked, 'utf8') !== '')
    const { id } = desk.record()
    running.child.kill('SIGUSR2')
    const { code, stderr } = await running.done
    t.not(code, 0)
    t.match(stderr, /crash of the test/)
    await waitFor('the container is gone', async () => (await containersOf(id)) === '')
    const answers = readFileSync(asked, 'utf8')
    await new Promise((resolve) => setTimeout(resolve, 500))
    t.equal(readFileSync(asked, 'utf8'), answers, 'and nothing of it goes on')
    t.match(answers, /^403$/m)
    t.match(await desk.run(['reap']), { code: 0 })
    t.match(desk.records()[0], { id, status: 'failed_resumable' })
    t.strictSame(desk.leftovers(), [])
  },
)

void tap.test(
  'D-37: a command of a repository that fails is told, and leaves nothing',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    execFileSync('git', ['init', '--quiet', desk.workspace])
    const workflow = { name: 'w', nodes: [{ id: 'n', command: 'touch ran' }] }
    writeFileSync(path.join(desk.workspace, 'workflow.yaml'), JSON.stringify(workflow))
    const line = 'echo first; echo last words >&2; exit 3'
    for (const postCreateCommand of [
      line,
      ['sh', '-c', line],
      { fails: line, waits: 'sleep 60' },
    ]) {
      const file = path.join(desk.workspace, '.devcontainer.json')
      writeFileSync(file, JSON.stringify({ image: TEST_IMAGE, postCreateCommand }))
      const { code, stderr } = await desk.run(['run', 'workflow.yaml'])
      t.equal(code, 125)
      t.match(stderr, /post_create ended with 3:\n(?: {4}first\n)? {4}last words/)
      const { id, error } = desk.record()
      t.match(error, /^\[SANDBOX_SETUP_FAILED\] post_create ended with 3:/)
      t.equal(await containersOf(id), '')
      t.strictSame(desk.leftovers(), [])
      t.notOk(existsSync(path.join(desk.workspace, 'ran')))
    }
  },
)
