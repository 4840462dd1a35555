import tap from 'tap'
import { readRunArgs } from '../../../src/sandbox/devcontainer/run-args.ts'

const NOTHING = { env: {}, user: undefined, engineArgs: [], ignored: [], refused: [] }
const words = (line: string) => line.split(' ').filter((word) => word !== '')
const refusedBy = (...args: readonly string[]) =>
  readRunArgs(args).refused.map(({ flag, reason }) => `${flag}: ${reason}`)

void tap.test('no flags are no wish', async (t) => {
  t.strictSame(readRunArgs([]), NOTHING)
})

/** What is handed to the engine. */
const TAKEN: [line: string, ...engineArgs: string[]][] = [
  ['--hostname=dev', '--hostname=dev'],
  ['--hostname dev', '--hostname=dev'],
  ['-h dev', '--hostname=dev'],
  ['-hdev', '--hostname=dev'],
  ['-h=dev', '--hostname=dev'],
  ['--shm-size=1g', '--shm-size=1g'],
  ['--shm-size 512MB', '--shm-size=512MB'],
  ['--shm-size=2GiB', '--shm-size=2GiB'],
  ['--shm-size=67108864', '--shm-size=67108864'],
  ['--cpus=1.5', '--cpus=1.5'],
  ['-c 512', '--cpu-shares=512'],
  ['-c512', '--cpu-shares=512'],
  ['--ulimit nofile=65536:65536', '--ulimit=nofile=65536:65536'],
  ['--ulimit=core=0', '--ulimit=core=0'],
  ['-th dev', '--hostname=dev'],
  ['-ith=dev --cpus 2', '--hostname=dev', '--cpus=2'],
]

/** The switches in front of a flag, as they are told. */
const switchesOf = (line: string) =>
  readRunArgs(words(line)).ignored.filter(({ flag }) => ['-i', '-t'].includes(flag))

void tap.test('flags that stay inside are handed on, in one spelling', async (t) => {
  for (const [line, ...engineArgs] of TAKEN) {
    t.strictSame(
      readRunArgs(words(line)),
      { ...NOTHING, engineArgs, ignored: switchesOf(line) },
      line,
    )
  }
})

void tap.test('a value of another form is refused', async (t) => {
  const lines = ['--hostname=a.example', '--hostname=-x', '--hostname=', '--hostname=a/b']
  lines.push('--shm-size=0', '--shm-size=1Gi', '--shm-size=-1', '--shm-size=1g,x', '--cpus=-1')
  lines.push('--cpus=x', '--cpu-shares=1e9', '--ulimit=nproc=1', '--ulimit=nofile=-1')
  lines.push('--ulimit=nofile=1:2:3', '--ulimit nofile', '-c=x', '-hx.y', '-h=')
  for (const line of lines) {
    t.match(readRunArgs(words(line)).refused, [{ reason: /has another form$/ }], line)
    t.strictSame(readRunArgs(words(line)).engineArgs, [], line)
  }
  t.match(refusedBy('--hostname', 'a\n--privileged'), [/another form/])
  t.match(refusedBy('--cpus', '1\n'), [/another form/])
})

/** Each flag with its value, if it takes one, and what docker calls it. */
const IGNORED = [
  '--init',
  '--rm',
  '-i',
  '-t',
  '-d',
  '-it',
  '--interactive',
  '--tty',
  '--detach',
  '--no-healthcheck',
  '--init=false',
  '--rm=false',
  '--tty=T',
  '-t=0',
  '--name other',
  '--name=other',
  '--label own=fake',
  '-l own=fake',
  '-lown=fake',
  '--cap-drop=ALL',
  '--stop-timeout 1',
  '--stop-signal=9',
  '--pull=always',
  '--workdir /',
  '-w/',
  '-m 8g',
  '--memory=8g',
  '--memory-swap -1',
  '--memory-reservation=1g',
  '--pids-limit=-1',
]

void tap.test('flags that change nothing are told and not handed on', async (t) => {
  for (const line of IGNORED) {
    const { ignored, ...effect } = readRunArgs(words(line))
    t.strictSame({ ...effect, ignored: [] }, NOTHING, line)
    t.ok(ignored.length > 0, line)
    for (const { index, flag, reason } of ignored) {
      t.equal(index, 0)
      t.match(flag, /^-/)
      t.match(reason, /\w/)
    }
  }
  t.strictSame(
    readRunArgs(['-itd']).ignored.map(({ flag }) => flag),
    ['-i', '-t', '-d'],
  )
})

void tap.test('a switch takes true or false, and none of the next word', async (t) => {
  t.strictSame(refusedBy('--tty=yes'), ['--tty: it takes true or false'])
  t.strictSame(refusedBy('--tty='), ['--tty: it takes true or false'])
  t.strictSame(refusedBy('-i='), ['-i: it takes true or false'])
  t.strictSame(refusedBy('--init', 'false'), ['false: it is no flag'])
})

void tap.test('a variable needs a value, so that none is taken from the host', async (t) => {
  const env = { A: '1' }
  for (const line of [
    '-e A=1',
    '-eA=1',
    '-e=A=1',
    '--env A=1',
    '--env=A=1',
    '-te A=1',
    '-iteA=1',
  ]) {
    t.strictSame(readRunArgs(words(line)), { ...NOTHING, env, ignored: switchesOf(line) }, line)
  }
  t.strictSame(readRunArgs(['-e', 'A=1', '-eA=2', '-e', 'B=x=y z', '-eC=']).env, {
    A: '2',
    B: 'x=y z',
    C: '',
  })
  const fromHost = ': it would take the value of SECRET from the host'
  t.strictSame(refusedBy('-eSECRET'), [`-e${fromHost}`])
  t.strictSame(refusedBy('--env', 'SECRET'), [`--env${fromHost}`])
  for (const text of ['', '=x', '1A=x', 'A-B=x', 'A B=x', '__proto__=x', 'A\n=x']) {
    t.match(refusedBy(`--env=${text}`), [/is no name of a variable$/], text)
  }
  t.match(refusedBy('-e='), [/is no name of a variable$/], 'as docker reads it')
})

void tap.test('the last user counts, and who may be one is judged elsewhere', async (t) => {
  for (const line of [
    '-u 1000',
    '-u1000',
    '-u=1000',
    '--user 1000',
    '--user=1000',
    '-u 5 -u 1000',
  ]) {
    t.strictSame(readRunArgs(words(line)), { ...NOTHING, user: '1000' }, line)
  }
  t.equal(readRunArgs(['-u=']).user, '=', 'as docker reads it')
  t.equal(readRunArgs(['-u', '--privileged']).user, '--privileged', 'as docker reads it')
})

void tap.test('a flag without its value is refused: it would take a word of ours', async (t) => {
  for (const flag of ['-e', '-u', '-h', '--name', '--label', '--cpus', '--env', '-it -w', '-m']) {
    t.match(readRunArgs(words(flag)).refused, [{ reason: 'its value is missing' }], flag)
  }
})

void tap.test('what is no flag is refused: docker would take it for the image', async (t) => {
  for (const word of ['debian', '', '-', '--', ' --init', 'x=y', '\u{2010}it']) {
    t.strictSame(refusedBy(word), [`${word}: it is no flag`])
  }
  t.strictSame(readRunArgs(['--init', '--', '--privileged']).refused[0], {
    index: 1,
    flag: '--',
    reason: 'it is no flag',
  })
})

/** D-14: every flag of the case book, in every spelling that docker has for it, and what says why. */
const OPENING: [reason: RegExp, ...lines: string[]][] = [
  [/rights over the host/, '--privileged', '--privileged=true', '--privileged=false'],
  [/rights over the host/, '--cap-add=ALL', '--cap-add SYS_ADMIN', '--cap-add=', '--cap-add'],
  [/rights over the host/, '--device=/dev/mem', '--device /dev/fuse', '--gpus all', '--gpus=all'],
  [/one way out/, '--network=host', '--network host', '--net host', '--net=host', '--net=none'],
  [/one way out/, '--network-alias=x', '--ip=10.0.0.1', '--ip6=::1', '--link other'],
  [/namespace of the host/, '--pid=host', '--pid host', '--ipc=host', '--uts=host'],
  [/namespace of the host/, '--cgroup-parent /', '--cgroup-parent=/'],
  [/fence/, '--userns=host', '--security-opt seccomp=unconfined', '--cgroupns=host'],
  [/fence/, '--security-opt=apparmor:unconfined', '--security-opt=no-new-privileges'],
  [/key mounts/, '-v /:/h', '-v/:/h', '-v=/:/h', '--volume=/:/h', '--volume /:/h', '-itv/:/h'],
  [/key mounts/, '--mount=type=bind,src=/,dst=/h', '--tmpfs=/run', '--volumes-from other'],
  [/file of the host/, '--env-file /etc/environment', '--env-file=/etc/environment'],
  [/behind the proxy/, '--add-host=allowed.test:10.0.0.1', '--dns=8.8.8.8', '--dns-option x'],
  [/behind the proxy/, '--dns-search=x'],
  [
    /talks to a sandbox/,
    '-p 0.0.0.0:22:22',
    '-p22:22',
    '-P',
    '-itP',
    '--publish=1:1',
    '--expose=1',
  ],
  [/talks to a sandbox/, '--publish-all'],
  [/not among/, '--entrypoint sh', '--entrypoint=sh', '--restart=always', '--restart always'],
  [/not among/, '--runtime=x', '--sysctl=a=b', '--group-add=0', '--volume-driver=x', '--cidfile=x'],
  [/not among/, '--log-driver=x', '--storage-opt=x', '--isolation=x', '--oom-kill-disable', '-a x'],
  [/not among/, '--platform=linux/amd64', '--label-file=x', '--use-api-socket', '--annotation=a=b'],
  // Docker takes no unique prefixes, and neither is one taken here.
  [/not among/, '--priv', '--privileg', '--vol=/:/h', '--env-fil=x', '--PRIVILEGED', '--Init'],
  [/not among/, '---init', '--i', '--e=A=1', '-x', '-I', '-itx', '-E A=1'],
  // What JavaScript gives every object is no flag.
  [/not among/, '--constructor', '--toString=x', '--__proto__', '--hasOwnProperty x'],
]

void tap.test(
  'D-14, D-33: flags that open the sandbox are refused in every spelling',
  async (t) => {
    for (const [reason, ...lines] of OPENING) {
      for (const line of lines) {
        const { refused, engineArgs } = readRunArgs(words(line))
        t.match(refused[0], { reason }, line)
        t.strictSame(engineArgs, [], line)
        t.ok(readRunArgs([...words('--init --name x'), ...words(line)]).refused.length > 0, line)
      }
    }
    t.strictSame(refusedBy('--=x'), ['--=x: it is no flag'])
  },
)

void tap.test('D-14: all of it at once is refused with each flag at its place', async (t) => {
  const args = [
    '--privileged --network=host --net host --pid=host --ipc=host --userns=host --cap-add=ALL',
    '--cap-add SYS_ADMIN --device=/dev/mem --security-opt seccomp=unconfined',
    '--security-opt=apparmor:unconfined -v /:/h -v/:/h --volume=/:/h',
    '--mount=type=bind,src=/,dst=/h --volumes-from other --env-file /etc/environment',
    '-eAWS_SECRET_ACCESS_KEY --add-host=allowed.test:10.0.0.1 --dns=8.8.8.8 --dns-option x',
    '-p 0.0.0.0:22:22 -P --cgroup-parent / --gpus all --label own=fake --name other',
    '--entrypoint sh --rm=false --restart=always --user 0',
  ].flatMap(words)
  const { refused, ignored, engineArgs, env, user } = readRunArgs(args)
  t.strictSame({ engineArgs, env, user }, { engineArgs: [], env: {}, user: '0' })
  // These three are harmless here: what they say is not handed on, and told.
  t.strictSame(
    ignored.map(({ flag }) => flag),
    ['--label', '--name', '--rm'],
  )
  const places = new Map(refused.map(({ index, flag }) => [index, flag]))
  for (const [index, word] of args.entries()) {
    const flag = /^(?:--[^=]+|-\w)/.exec(word)?.[0]
    if (flag === undefined || ['--label', '--name', '--rm', '--user'].includes(flag)) continue
    t.equal(places.get(index), flag, word)
  }
})

void tap.test('the value of a flag is the next word, whatever it looks like', async (t) => {
  t.strictSame(refusedBy('--name', '--privileged'), [])
  t.match(readRunArgs(['--label', '-v/:/h', '--init']).ignored, [{ index: 0 }, { index: 2 }])
  t.match(readRunArgs(['--name=', '--privileged']).refused, [{ index: 1, flag: '--privileged' }])
})
