import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { type Desk, openDesk, ROOT } from '../support/sandbox-run.ts'

const SKIP = NO_ENGINE || (process.getuid?.() === 0 ? false : 'only root makes a namespace')
const QUESTIONS = 100_000
/** What the program may weigh, in kB: 65,536 names that have an address are some 20 MiB of it. */
const MAX_KB = 256 * 1024

tap.setTimeout(240_000)

/** Asks for random names of two zones, denied ones and allowed ones in turn, so many at a time; says how many were answered. */
const ASKER = String.raw`
const { randomBytes } = require('node:crypto')
const socket = require('node:dgram').createSocket('udp4')
const waiting = new Map()
let sent = 0, answered = 0
const ask = () => {
  if (sent === ${QUESTIONS}) return
  const id = sent % 65536
  const name = [randomBytes(8).toString('hex'), sent++ % 2 ? 'wild' : 'evil', 'test']
  const labels = name.flatMap((label) => [Buffer.from([label.length]), Buffer.from(label)])
  const head = Buffer.from([id >> 8, id & 255, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0])
  waiting.set(id, setTimeout(() => { waiting.delete(id); next() }, 3000))
  socket.send(Buffer.concat([head, ...labels, Buffer.from([0, 0, 1, 0, 1])]), 53, '127.64.0.1')
}
const next = () => {
  ask()
  if (waiting.size > 0 || sent < ${QUESTIONS}) return
  console.log('answered ' + answered)
  socket.close()
}
socket.on('message', (message) => {
  const id = message.readUInt16BE(0)
  if (!waiting.has(id)) return
  clearTimeout(waiting.get(id))
  waiting.delete(id)
  answered++
  next()
})
for (let i = 0; i < 64; i++) ask()
`

/** One run after the other in a namespace of their own with one way out, whose packets are counted. */
const OUTER = String.raw`
set -e
sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1
ip link set lo up
ip link add out0 type veth peer name far0
ip link set out0 arp off
ip address add 198.51.100.1/24 dev out0
ip link set far0 up
ip link set out0 up
ip route add default dev out0
sent() { awk '/out0:/ { print $11 }' /proc/net/dev; }
"$@" run asks.yaml &
child=$!
for i in $(seq 600); do
  kill -0 $child 2>/dev/null || break
  grep -s VmHWM /proc/$child/status || true
  sleep 0.2
done
wait $child
echo "asked: $(sent)"
"$@" run dials.yaml || true
echo "dialled: $(sent)"
`

const workflow = (command: string) => `name: many
sandbox:
  image: ${TEST_IMAGE}
  network: { rules: ["**.wild.test", "203.0.113.5:443"], limits: { dialTimeoutMs: 500 } }
nodes: [{ id: only, command: ${JSON.stringify(command)} }]
`

void tap.test(
  'a hundred thousand random names: nothing leaves, and memory is bounded',
  { skip: SKIP },
  async (t) => {
    const desk = openDesk(t)
    writeFileSync(path.join(desk.workspace, 'ask.js'), ASKER)
    writeFileSync(path.join(desk.workspace, 'asks.yaml'), workflow('node ask.js'))
    const dial = `require('node:net').connect(443, '203.0.113.5').on('error', (e) => console.log(e.code))`
    writeFileSync(path.join(desk.workspace, 'dial.js'), dial)
    writeFileSync(path.join(desk.workspace, 'dials.yaml'), workflow('node dial.js'))
    const { stdout, stderr } = await inNamespace(desk)
    t.match(stdout, `answered ${QUESTIONS}\n`, stderr)
    t.match(stdout, 'asked: 0\n', 'no look-up sends a packet')
    t.match(stdout, /ECONNRESET\ndialled: [1-9]/, 'a dial does, so it would be seen')
    const [peak = 0] = [...stdout.matchAll(/VmHWM:\s+(\d+) kB/g)]
      .map((one) => Number(one[1]))
      .toSorted((a, b) => b - a)
    t.ok(peak > 0 && peak < MAX_KB, `at most ${peak} kB`)
  },
)

function inNamespace({
  workspace,
  home,
  iterionHome,
  tempRoot,
}: Desk): Promise<{ stdout: string; stderr: string }> {
  const program = path.join(ROOT, 'bin/iterion-egress.js')
  const words = ['--net', 'sh', '-c', OUTER, 'outer', process.execPath, program]
  const { PATH, DOCKER_HOST } = process.env
  const env = {
    PATH,
    HOME: home,
    TMPDIR: tempRoot,
    ITERION_HOME: iterionHome,
    ...(DOCKER_HOST && { DOCKER_HOST }),
  }
  return new Promise((resolve) => {
    execFile('unshare', words, { cwd: workspace, env, timeout: 200_000 }, (_, stdout, stderr) =>
      resolve({ stdout, stderr }),
    )
  })
}
