import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import path from 'node:path'
import tap from 'tap'
import { openHttpUpstream } from '../support/upstream.ts'
import { ordinaryUser } from '../support/users.ts'
import { NO_WRAP, openWrapDesk, type WrapCaller } from '../support/wrap.ts'

// What a sealed command cannot do. Each of these is a way out of a seal that is only a network namespace.

const POLICY = ['--mode', 'allowlist']
const CALLERS: readonly WrapCaller[] = ['user', 'root']

/** A script that says `open` for each thing that works and must not. */
const TRIES: Readonly<Record<string, string>> = {
  'another interface': 'grep -v -e "^ *lo:" -e Inter -e face /proc/net/dev',
  'an address outside': 'timeout 5 sh -c "exec 3<>/dev/tcp/192.0.2.1/80" 2>/dev/null',
  'the namespaces of the first process': 'nsenter -t 1 -n true',
  'its files': 'ls /proc/1/root/run',
  'its variables': 'cat /proc/1/environ',
  'a mount': 'mount -t tmpfs none /mnt',
  'an interface of its own': 'ip link add d0 type dummy',
  'lo down': 'ip link set lo down',
  'a cover taken away': 'umount /run',
  'the same as root of another namespace': 'unshare -Urm umount /run',
  'the same by the resolver': 'unshare -Urm umount /etc/resolv.conf',
  'what is below the cover': "unshare -Urm sh -c 'mount --bind / /mnt && ls /mnt/run/*'",
  'the resolver rewritten': 'echo x > /etc/resolv.conf',
  'a file where sockets are': 'touch /run/x',
  'a program that raises': 'test "$(setpriv -d | grep -c "no_new_privs: 1")" = 0',
  'the first process killed': 'kill -KILL 1 && sleep 0.2 && ! test -d /proc/1',
  'processes outside': `grep -q ${process.pid} /proc/${process.pid}/stat`,
}

void tap.test('a command cannot leave', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  const script = Object.entries(TRIES)
    .map(([what, line]) => `if { ${line}; } >/dev/null 2>&1; then echo 'open: ${what}'; fi`)
    .join('\n')
  for (const [caller, words] of [
    ['user', []],
    ['root', []],
    ['root', ['--as-root']],
  ] as const) {
    const env = { PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin' }
    const command = ['bash', '-c', `${script}\ngrep Cap /proc/self/status; echo end`]
    const { stdout } = await desk.run(caller, [...POLICY, ...words], command, { env })
    t.match(stdout, /^CapInh:\s0+\nCapPrm:\s0+\nCapEff:\s0+\nCapBnd:/, `${caller} ${stdout}`)
    t.match(stdout, /\nend\n$/)
  }
})

void tap.test('the tries find what they are there for', { skip: NO_WRAP }, async (t) => {
  // Only those that change nothing, since here they work.
  for (const what of ['a program that raises', 'processes outside']) {
    const { status } = spawnSync('bash', ['-c', `{ ${TRIES[what]}; } >/dev/null 2>&1`])
    t.equal(status, 0, what)
  }
})

/** Connects to a socket, and says how that went. */
const CONNECT = `const socket = require('node:net').connect(process.argv[1].replace('@', '\\0'))
socket.on('error', (error) => console.log(error.code)).on('connect', () => { console.log('open'); process.exit() })`

void tap.test('no socket of a service outside is reached', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  const { uid, gid } = ordinaryUser()
  const runtime = path.join(desk.folder, 'runtime')
  mkdirSync(runtime)
  const agent = path.join(desk.folder, 'an agent.sock')
  const bus = path.join(runtime, 'bus')
  const abstract = `@iterion-egress-test-${process.pid}`
  const inRun = `/run/iterion-egress-test-${process.pid}.sock`
  for (const name of [agent, bus, abstract, inRun]) {
    const server = createServer((socket) => socket.on('error', () => undefined).end())
    server.listen(name.replace('@', '\0'))
    await new Promise((resolve) => server.once('listening', resolve))
    t.teardown(() => server.close())
    if (!name.startsWith('@')) chmodSync(name, 0o777)
    const open = spawnSync(process.execPath, ['-e', CONNECT, name], { uid, gid, encoding: 'utf8' })
    // Asked from another process: this one would have to answer meanwhile.
    t.match(open.error?.message ?? open.stdout, /^(?:open\n)?$/, name)
  }
  const env = { XDG_RUNTIME_DIR: runtime }
  for (const caller of CALLERS) {
    for (const name of [agent, bus, abstract, inRun, '/run/docker.sock', '/var/run/docker.sock']) {
      const command = [process.execPath, '-e', CONNECT, name]
      const { stdout, stderr } = await desk.run(caller, POLICY, command, { env })
      t.match(stdout, /^E[A-Z]+\n$/, `${name} ${stderr}`)
    }
  }
})

void tap.test('names are asked of the seal alone', { skip: NO_WRAP }, async (t) => {
  const desk = openWrapDesk(t)
  writeFileSync(path.join(desk.folder, 'a'), 'a')
  const script = `cat /etc/resolv.conf; grep hosts /etc/nsswitch.conf; getent hosts "$(hostname)" >/dev/null && echo itself; /usr/bin/python3 - <<'END'
import socket
server = socket.socket()
server.bind(('127.0.0.1', 80))
print('port 80 is its own')
END`
  const { stdout, stderr } = await desk.run('user', POLICY, ['sh', '-c', script])
  t.match(stdout, /^nameserver 127\.64\.0\.1\noptions ndots:1\nhosts: files dns\n/)
  t.match(stdout, /itself\nport 80 is its own\n$/, stderr)
})

void tap.test(
  'a connected socket is not handed down, and a file is',
  { skip: NO_WRAP },
  async (t) => {
    const desk = openWrapDesk(t)
    const { port } = await openHttpUpstream(t)
    const file = path.join(desk.folder, 'file')
    writeFileSync(file, 'of a file\n')
    const { uid, gid } = ordinaryUser()
    const inside = 'cat <&63; readlink /proc/self/fd/64'
    const words = [process.execPath, desk.program, 'wrap', ...POLICY, '--', 'bash', '-c', inside]
    const script = `exec 63<"$1" 64<>/dev/tcp/127.0.0.1/${port}; shift; exec env -u NODE_OPTIONS "$@"`
    const child = spawn('bash', ['-c', script, 'bash', file, ...words], { uid, gid })
    let output = ''
    child.stdout.on('data', (text: Buffer) => (output += text.toString()))
    await once(child, 'close')
    t.equal(output, 'of a file\n/dev/null\n')
  },
)

const LIMITED = new URL('../fixtures/without-namespaces.py', import.meta.url).pathname

void tap.test(
  'without namespaces nothing runs, and it is said what is off',
  { skip: NO_WRAP },
  async (t) => {
    const desk = openWrapDesk(t)
    const { uid } = ordinaryUser()
    for (const limit of ['max_user_namespaces', 'max_net_namespaces', 'max_pid_namespaces']) {
      const program = ['env', '-u', 'NODE_OPTIONS', process.execPath, desk.program, 'wrap']
      const words = [limit, String(uid), ...program, ...POLICY, '--', 'echo', 'ran']
      const { status, stdout, stderr } = spawnSync('/usr/bin/python3', [LIMITED, ...words], {
        encoding: 'utf8',
        cwd: desk.folder,
      })
      t.strictSame({ status, stdout }, { status: 125, stdout: '' }, limit)
      t.match(stderr, `turned off here; root turns them on with: sysctl -w user.${limit}=`)
    }
  },
)
