import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server } from 'node:net'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { openHttpUpstream } from '../support/upstream.ts'
import { asOrdinaryUser } from '../support/users.ts'
import { NO_WRAP, openWrapDesk, wrapWords } from '../support/wrap.ts'

// Ways past the door that lie beside the network: what a command is given, what it shares, and what starts it.

const POLICY = ['--mode', 'allowlist']

async function listenOn(t: Test, name: string): Promise<Server> {
  const server = createServer((socket) => socket.on('error', () => undefined).end('outside'))
  t.teardown(() => server.close())
  server.listen(name)
  await once(server, 'listening')
  chmodSync(name, 0o777)
  return server
}

/** Connects to each socket named, and says how that went. */
const KNOCK = `
import socket, sys
for name in sys.argv[1:]:
    try:
        one = socket.socket(socket.AF_UNIX)
        one.connect(name)
        print('open', name, one.recv(9))
    except OSError as error:
        print('closed', error.errno)
`

void tap.test('a socket is closed whatever it is called by now', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  const at = (name: string) => path.join(desk.folder, name)
  mkdirSync(at('deep'))
  mkdirSync(at('moved'))
  mkdirSync(at('.config/program'), { recursive: true })
  await listenOn(t, at('renamed.a'))
  renameSync(at('renamed.a'), at('renamed.b'))
  await listenOn(t, at('moved.a'))
  renameSync(at('moved.a'), at('moved/b'))
  await listenOn(t, at('linked.a'))
  linkSync(at('linked.a'), at('linked.b'))
  await listenOn(t, at('two\nlines'))
  await listenOn(t, at('deep/s'))
  await listenOn(t, at('.config/program/s'))
  // One by a name without a folder, and one of another network, each by a process of its own.
  const serve = `import socket, sys, time
one = socket.socket(socket.AF_UNIX); one.bind(sys.argv[1]); one.listen(); print('up', flush=True)
while True: one.accept()[0].send(b'outside')`
  for (const [first, ...words] of [
    ['/usr/bin/python3', '-c', serve, 'relative'],
    ['/usr/bin/unshare', '--net', '/usr/bin/python3', '-c', serve, at('elsewhere')],
  ] as const) {
    const child = spawn(first, words, { cwd: desk.folder, stdio: ['ignore', 'pipe', 'inherit'] })
    t.teardown(() => child.kill('SIGKILL'))
    await once(child.stdout, 'data')
  }
  const names = [
    'renamed.b',
    'moved/b',
    'linked.a',
    'linked.b',
    'two\nlines',
    'deep/s',
    '.config/program/s',
    'relative',
  ]
  const places = [...names, 'elsewhere'].map(at)
  for (const name of ['relative', 'elsewhere']) chmodSync(at(name), 0o777)
  const knocking = spawn('/usr/bin/python3', ['-c', KNOCK, ...places], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let bare = ''
  knocking.stdout.on('data', (text: Buffer) => (bare += text.toString()))
  await once(knocking, 'close')
  t.equal(bare.match(/^open/gm)?.length, places.length, 'all are open outside')
  for (const caller of ['user', 'root'] as const) {
    const command = ['/usr/bin/python3', '-c', KNOCK, ...places]
    const { stdout, stderr } = await desk.run(caller, POLICY, command)
    t.equal(stdout.match(/^closed/gm)?.length, places.length, `${caller} ${stdout} ${stderr}`)
  }
})

/** Listens by names that are bytes, given in hexadecimal, and says when it does. */
const SERVE_BYTES = `
import os, socket, sys, time
held = []
for text in sys.argv[1:]:
    name = bytes.fromhex(text)
    os.makedirs(os.path.dirname(name), exist_ok=True)
    one = socket.socket(socket.AF_UNIX); one.bind(name); one.listen(); held.append(one)
    os.chmod(name, 0o777)
print('up', flush=True)
time.sleep(60)
`
const KNOCK_BYTES = `
import socket, sys
for text in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(bytes.fromhex(text)); print('open', text)
    except OSError as error:
        print('closed', error.errno)
`

void tap.test('a name is bytes, and a folder may be blind', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  const names = ['a\xff', 'cr\rx', 'f\xe9/s', 'f\nl/s', 'f\r/x/y/s', ' a ', 'q\'"$(x)', '.b/s', '-']
  const hex = names.map((name) =>
    Buffer.concat([Buffer.from(`${desk.folder}/`), Buffer.from(name, 'latin1')]).toString('hex'),
  )
  const [first, ...as] = asOrdinaryUser()
  const server = spawn(first, [...as, '/usr/bin/python3', '-c', SERVE_BYTES, ...hex], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => server.kill('SIGKILL'))
  await once(server.stdout, 'data')
  // It can be entered, and not listed.
  chmodSync(path.join(desk.folder, '.b'), 0o311)
  const knock = ['/usr/bin/python3', '-c', KNOCK_BYTES, ...hex]
  const bare = spawnSync(first, [...as, ...knock], { encoding: 'utf8' })
  t.equal(bare.stdout.match(/^open/gm)?.length, names.length, 'all are open outside')
  const { stdout, stderr } = await desk.run('user', POLICY, knock)
  t.equal(stdout.match(/^closed/gm)?.length, names.length, `${stdout} ${stderr}`)
})

void tap.test('descriptors are files, pipes and terminals', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  // A folder, a process, a namespace, a device, memory and a pipe.
  const script = `
import os, sys
def at(n, fd): os.dup2(fd, n); os.set_inheritable(n, True)
at(40, os.open('/run', os.O_RDONLY))
at(41, os.open('/', os.O_PATH))
at(42, os.pidfd_open(os.getpid()))
at(43, os.open('/proc/self/ns/net', os.O_RDONLY))
at(44, os.open('/proc/self/environ', os.O_RDONLY))
at(45, os.memfd_create('m', 0))
at(46, os.pipe()[1])
at(47, os.open('/dev/null', os.O_RDONLY))
at(48, os.eventfd(0))
os.execvp(sys.argv[1], sys.argv[1:])
`
  const see = 'for n in 40 41 42 43 44 45 46 47 48; do readlink /proc/self/fd/$n; done'
  const words = ['-c', script, ...wrapWords(desk, POLICY, ['bash', '-c', see])]
  const { stdout, stderr } = spawnSync('python3', words, { encoding: 'utf8', cwd: desk.folder })
  const seen = stdout.split('\n').slice(0, -1)
  t.strictSame(seen.slice(0, 5), Array(5).fill('/dev/null'), stderr)
  t.match(seen.slice(5), [/^\/memfd:m/, /^pipe:/, '/dev/null', '/dev/null'])
})

void tap.test('standard streams lead nowhere', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  const { port } = await openHttpUpstream(t)
  const run = (redirection: string) => {
    const words = [
      '-c',
      `exec "$@" ${redirection}`,
      'bash',
      ...wrapWords(desk, POLICY, ['touch', 'ran']),
    ]
    return spawnSync('/bin/bash', words, { encoding: 'utf8', cwd: desk.folder })
  }
  for (const [redirection, why] of [
    [`<> /dev/tcp/127.0.0.1/${port}`, /standard input \(socket:.*may lead past the door/],
    [`> /dev/tcp/127.0.0.1/${port}`, /standard output \(socket:.*may lead past the door/],
    [`< /dev/udp/127.0.0.1/${port}`, /standard input \(socket:.*may lead past the door/],
    ['< /run', /standard input \(\/run\) may lead past the door/],
  ] as const) {
    const { status, stderr } = run(redirection)
    t.equal(status, 125, redirection)
    t.match(stderr, why)
    t.notMatch(stderr, /\n *at /, 'no stack')
    t.notOk(existsSync(path.join(desk.folder, 'ran')))
  }
  const opened = (name: string, flags: string) => {
    const script = `import os, sys; os.dup2(os.open('${name}', ${flags}), 0); os.execvp(sys.argv[1], sys.argv[1:])`
    const words = ['-c', script, ...wrapWords(desk, POLICY, ['touch', 'ran'])]
    return spawnSync('/usr/bin/python3', words, { encoding: 'utf8', cwd: desk.folder })
  }
  await listenOn(t, path.join(desk.folder, 's'))
  for (const [name, flags] of [
    [path.join(desk.folder, 's'), 'os.O_PATH'],
    ['/dev/net/tun', 'os.O_RDWR'],
    ['/proc/self/ns/net', 'os.O_RDONLY'],
    ['/proc/self/mem', 'os.O_RDONLY'],
  ] as const) {
    const { status, stderr } = opened(name, flags)
    t.equal(status, 125, name)
    t.match(stderr, /standard input .* may lead past the door/, name)
  }
  t.equal(run('< /dev/null').status, 0)
  t.equal(run('< /etc/hostname').status, 0)
  t.equal(run('<&-').status, 0)
})

void tap.test('nothing of the command’s runs in what starts it', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  const at = (name: string) => path.join(desk.folder, name)
  // It writes who it is loaded into in a namespace of users, and so behind the first step of a seal.
  writeFileSync(
    at('first.c'),
    `#include <stdio.h>
#include <string.h>
__attribute__((constructor)) static void first(void) {
  char name[32] = "", map[64] = "";
  FILE *self = fopen("/proc/self/comm", "r"), *users = fopen("/proc/self/uid_map", "r"), *log;
  if (!self || !users || !fgets(name, sizeof name, self) || !fgets(map, sizeof map, users)) return;
  if (!strstr(map, "4294967295") && (log = fopen("${at('log')}", "a"))) {
    fputs(name, log);
    fclose(log);
  }
}`,
  )
  execFileSync('cc', ['-shared', '-fPIC', '-o', at('first.so'), at('first.c')])
  mkdirSync(at('bin'))
  for (const name of [
    'sh',
    'unshare',
    'setpriv',
    'setsid',
    'mount',
    'ip',
    'mkdir',
    'getent',
    'iptables-restore',
  ]) {
    writeFileSync(at(`bin/${name}`), `#!/bin/bash\necho ${name} >> ${at('log')}\n`, { mode: 0o755 })
  }
  writeFileSync(at('log'), '')
  chmodSync(at('log'), 0o666)
  const PATH = `${at('bin')}:/usr/bin:/bin`
  const { code, stdout, stderr } = await desk.run('user', POLICY, ['/usr/bin/env'], {
    env: { PATH },
  })
  t.equal(code, 0, stderr)
  t.match(stdout, `PATH=${PATH}\n`)
  t.equal((await desk.run('root', POLICY, ['/usr/bin/true'], { env: { PATH } })).code, 0)
  const [first, ...words] = wrapWords(desk, POLICY, ['/usr/bin/true'])
  spawnSync(first, words, {
    cwd: desk.folder,
    stdio: 'ignore',
    env: { PATH: process.env['PATH'], LD_PRELOAD: at('first.so') },
  })
  t.equal(readFileSync(at('log'), 'utf8'), 'true\n', 'it is loaded into the command alone')
})

void tap.test('memory and queues are the command’s own', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  const id = /\d+/.exec(
    execFileSync('ipcmk', ['-M', '64', '-p', '0666'], { encoding: 'utf8' }),
  )?.[0]
  t.teardown(() => spawnSync('ipcrm', ['-m', id ?? '']))
  for (const caller of ['user', 'root'] as const) {
    const { stdout } = await desk.run(caller, POLICY, ['sh', '-c', 'ipcs -m; ls -A /dev/mqueue'])
    t.notMatch(stdout, /0x[\da-f]+/, caller)
  }
})
