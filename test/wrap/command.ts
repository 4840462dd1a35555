import { spawnSync } from 'node:child_process'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { openHttpUpstream } from '../support/upstream.ts'
import { ordinaryUser } from '../support/users.ts'
import { NO_WRAP, openWrapDesk, outsideWords, type WrapCaller } from '../support/wrap.ts'

// What a command sees of itself: it is the caller's, with the caller's streams and folder, and goes out by the door alone.

const CALLERS: readonly WrapCaller[] = ['user', 'root']
const NOBODY = 65534

/** Programs that heed the variables, each asking for a page. */
const CLIENTS: readonly (readonly [string, readonly string[]])[] = [
  ['curl', ['curl', '-sS', '-f', 'http://allowed.test/']],
  [
    'python',
    [
      '/usr/bin/python3',
      '-c',
      'import urllib.request as u; print(u.urlopen("http://allowed.test/").read().decode(), end="")',
    ],
  ],
  [
    'node',
    [
      process.execPath,
      '-e',
      `const { HTTP_PROXY } = process.env
require('node:http').get(HTTP_PROXY, { path: 'http://allowed.test/', headers: { host: 'allowed.test' } }, (answer) => answer.pipe(process.stdout))`,
    ],
  ],
]

void tap.test('programs reach what is allowed', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  const { port } = await openHttpUpstream(t)
  for (const caller of CALLERS) {
    for (const [what, command] of CLIENTS) {
      const result = await desk.run(caller, outsideWords('allowed.test', port), command)
      t.strictSame(result, { code: 0, stdout: 'ok', stderr: '' }, `${what} of ${caller}`)
    }
  }
})

/** The same asking as if there were no proxy, and what each says of a host that is denied. */
const IGNORANT: readonly (readonly [string, (url: string) => readonly string[], RegExp])[] = [
  ['curl', (url) => ['curl', '-sS', '--noproxy', '*', url], /Could not resolve host/],
  [
    'python',
    (url) => [
      '/usr/bin/python3',
      '-c',
      `import urllib.request as u; print(u.build_opener(u.ProxyHandler({})).open("${url}").read().decode(), end="")`,
    ],
    /Name or service not known|No address associated/,
  ],
  [
    'node',
    (url) => [
      'env',
      '-u',
      'NODE_USE_ENV_PROXY',
      process.execPath,
      '-e',
      `fetch('${url}').then((answer) => answer.text()).then((text) => process.stdout.write(text))`,
    ],
    /ENOTFOUND/,
  ],
]

void tap.test('programs that know of no proxy reach the same', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  const { port } = await openHttpUpstream(t)
  const words = outsideWords('allowed.test', port)
  for (const caller of CALLERS) {
    for (const [what, ask, complaint] of IGNORANT) {
      const allowed = await desk.run(caller, words, ask('http://allowed.test/'))
      t.strictSame(allowed, { code: 0, stdout: 'ok', stderr: '' }, `${what} of ${caller}`)
      const audited = await desk.run(caller, [...words, '--audit'], ask('http://allowed.test/'))
      t.match(audited.stderr, /^allowed +allowed\.test +80 +1 +allowed\.test$/m, 'counted once')
      const denied = await desk.run(caller, words, ask('http://denied.test/'))
      t.not(denied.code, 0, what)
      t.match(denied.stderr, complaint, what)
    }
  }
})

void tap.test('what is denied says why, and the audit sums it up', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  const { port } = await openHttpUpstream(t)
  const events = path.join(desk.folder, 'events.jsonl')
  const script = `curl -s http://allowed.test/; curl -s http://allowed.test/ >/dev/null
curl -s -o /dev/null -w ' %{http_connect}' https://denied.test/; curl -s -o /dev/null -w ' %{http_code}' http://192.0.2.7/; exit 3`
  const words = [...outsideWords('allowed.test', port), '--audit', '--events', events]
  const { code, stdout, stderr } = await desk.run('user', words, ['sh', '-c', script])
  t.equal(code, 3)
  t.equal(stdout, 'ok 403 403')
  t.equal(
    stderr,
    `iterion-egress: what was asked of the network
verdict  host          port  times  rule or reason
allowed  allowed.test  80    2      allowed.test
denied   denied.test   443   1      no-rule
denied   192.0.2.7     80    1      special-address
these rules would allow what was denied:
  - "denied.test:443"
and these would open addresses that are not public, if that is meant:
  - "192.0.2.7:80"
`,
  )
  const records = readFileSync(events, 'utf8')
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as { type: string; data: object })
  t.match(records, [
    { type: 'policy_loaded' },
    { type: 'sandbox_network_sealed', data: { door: 'process', strength: 'process' } },
    { type: 'network_allowed', data: { host: 'allowed.test' } },
  ])
  t.equal(records.filter(({ type }) => type === 'network_blocked').length, 2)
  const json = await desk.run('user', ['--mode', 'allowlist', '--audit', '--json'], ['true'])
  t.strictSame(JSON.parse(json.stderr), { audit: { lines: [], rules: [], inside: [] } })
})

void tap.test(
  'the resolver answers on port 53, whatever the policy',
  { skip: NO_WRAP },
  async (t) => {
    const desk = openWrapDesk(t)
    const ask = `
import socket
one = socket.create_connection(('127.64.0.1', 53), 3)
question = bytes.fromhex('000701000001000000000000') + b'\\7allowed\\4test\\0\\0\\1\\0\\1'
one.sendall(len(question).to_bytes(2, 'big') + question)
print(one.recv(512)[-4:].hex())`
    const rules = ['--rule', 'allowed.test', '--rule', 'ns.test:53']
    const { stdout, stderr } = await desk.run('user', rules, ['/usr/bin/python3', '-c', ask])
    t.equal(stdout, '7f400002\n', stderr)
  },
)

void tap.test('uid, groups, folder and files are the caller’s', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  const { uid, gid } = ordinaryUser()
  const policy = ['--mode', 'allowlist']
  const script =
    'id -u; id -g; pwd; touch made; echo out; echo err >&2; echo "$A|$PWD|$OLDPWD|$name"'
  const env = { A: 'a b\nc', name: 'kept', DISPLAY: ':0', SSH_AUTH_SOCK: '/tmp/agent' }
  const { stdout, stderr } = await desk.run('user', policy, ['sh', '-c', script], { env })
  t.equal(stdout, `${uid}\n${gid}\n${desk.folder}\nout\na b\nc|${desk.folder}||kept\n`)
  t.equal(stderr, 'err\n')
  t.match(statSync(path.join(desk.folder, 'made')), { uid, gid })
  const variables = await desk.run('user', policy, ['env'], { env })
  t.notMatch(variables.stdout, /DISPLAY|SSH_AUTH_SOCK|_iterion/)
  t.match(variables.stdout, /^HTTPS_PROXY=http:\/\/127.0.0.1:3128$/m)
})

void tap.test(
  'root’s command is somebody else, unless it is meant',
  { skip: NO_WRAP },
  async (t) => {
    const desk = openWrapDesk(t)
    const { uid, gid, name } = ordinaryUser()
    const policy = ['--mode', 'allowlist']
    const who = [
      'sh',
      '-c',
      'id -u; id -g; echo $HOME; cat /etc/shadow >/dev/null 2>&1 && echo root; :',
    ]
    const nobody = await desk.run('root', policy, who)
    t.strictSame(nobody, { code: 0, stdout: `${NOBODY}\n${NOBODY}\n/nonexistent\n`, stderr: '' })
    const failing = await desk.run('root', policy, ['false'])
    t.match(failing.stderr, /^iterion-egress: root's command ran as nobody \(HOME=\/nonexistent\)/)
    const quiet = await desk.run('root', [...policy, '--user', 'nobody'], ['false'])
    t.strictSame(quiet, { code: 1, stdout: '', stderr: '' })
    const named = await desk.run('root', [...policy, '--user', name], who)
    t.match(named.stdout, `${uid}\n${gid}\n/home/${name}\n`)
    const root = await desk.run('root', [...policy, '--as-root'], who)
    t.equal(root.stdout, '0\n0\n/root\nroot\n')
    t.match(root.stderr, /^iterion-egress: warning: --as-root: .*root can walk out/)
    for (const [caller, words, why] of [
      ['root', ['--user', 'root'], /--as-root says that it is meant/],
      ['root', ['--user', 'no-such-user'], /there is no such user/],
      ['root', ['--user', '--help'], /no name of a user/],
      ['root', ['--user', name, '--as-root'], /either/],
      ['user', ['--user', name], /for root/],
      ['user', ['--as-root'], /for root/],
    ] as const) {
      const { code, stderr } = await desk.run(caller, [...policy, ...words], ['touch', 'ran'])
      t.equal(code, 125, words.join(' '))
      t.match(stderr, why)
    }
    t.throws(() => statSync(path.join(desk.folder, 'ran')))
  },
)

void tap.test('the exit code is the command’s, or 125', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  writeFileSync(path.join(desk.folder, 'no-program'), '')
  const policy = ['--mode', 'allowlist']
  for (const [command, expected] of [
    [['true'], 0],
    [['sh', '-c', 'exit 42'], 42],
    [['sh', '-c', 'exit 125'], 125],
    [['sh', '-c', 'kill -TERM $$'], 143],
    [['sh', '-c', 'kill -KILL $$'], 137],
    [['/no/such/program'], 127],
    [['./no-program'], 126],
  ] as const) {
    const { code, stderr } = await desk.run('user', policy, command)
    t.equal(code, expected, `${command.join(' ')} ${stderr}`)
  }
  for (const [words, more, why] of [
    [[], {}, /name a policy/],
    [['--rule', 'http://a.test'], {}, /--rule/],
    [['--policy', 'missing.yaml'], {}, /missing\.yaml/],
    [['--nonsense'], {}, /unknown option/],
    [policy, { cwd: '/run' }, /\/run is not there inside/],
    [policy, { hidden: '/usr/bin/unshare' }, /unshare is missing: it comes with util-linux/],
  ] as const) {
    const { code, stdout, stderr } = await desk.run('user', words, ['echo', 'ran'], more)
    t.strictSame({ code, stdout }, { code: 125, stdout: '' }, stderr)
    t.match(stderr, why)
  }
  const typed = await desk.run('user', ['--rule', 'a.test', 'true'], ['true'])
  t.match(typed, { code: 125, stderr: /the command stands behind --/ })
  const bytes = ['-c', 'exec "$@" -- touch "$(printf "a\\377")"', 'sh', process.execPath]
  const broken = spawnSync('/bin/sh', [...bytes, desk.program, 'wrap', ...policy], {
    cwd: desk.folder,
    encoding: 'utf8',
  })
  t.match(broken, { status: 125, stderr: /is not UTF-8/ })
  const full = ['-c', 'exec "$@" 2>/dev/full', 'sh', process.execPath, desk.program, 'wrap']
  const unheard = [...full, ...policy, '--audit', '--', 'sh', '-c', 'exit 4']
  t.equal(spawnSync('/bin/sh', unheard, { cwd: desk.folder }).status, 4)
  const gone = [
    '-c',
    'mkdir gone; cd gone; rmdir ../gone; exec env -u NODE_OPTIONS "$@"',
    'sh',
    process.execPath,
  ]
  const lost = [...gone, desk.program, 'wrap', ...policy, '--', 'true']
  t.match(spawnSync('/bin/sh', lost, { cwd: desk.folder, encoding: 'utf8' }), {
    status: 125,
    stderr: 'iterion-egress: the folder that it is started in is gone: change to another one\n',
  })
  const json = await desk.run('user', ['--json'], ['true'])
  t.match(JSON.parse(json.stderr), { error: { code: 'USAGE' } })
})
