// What programs see that know of no proxy, beside those that ask it: the same load from inside a sealed container, by the
// proxy port and by the address of a name, through each door, interleaved in one run. The load runs beside the sandbox's own
// node; the outside world is a server on this machine's loopback.
import { execFile, execFileSync, spawn, spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { cpuOf } from './proxy/processes.js'

const run = promisify(execFile)
const IMAGE = 'iterion-egress-test'
const PROGRAM = path.resolve(import.meta.dirname, '../../bin/iterion-egress.js')
const NAME = 'upstream.bench.example'
const ROUNDS = 5
const MEBIBYTE = 1024 ** 2
const PROXY_CORE = '0'
const LOAD_CORE = '1'
/** What the way without a word may cost the netns door: a tenth of rate and of throughput. */
const LEAST = 0.9
/** A ratio whose rounds disagree by more than this says little. */
const MOST_SPREAD = 0.15

const FIGURES = [
  { key: 'connect', label: 'connections, 64 at a time', words: ['64', '8000'], each: 8_000 },
  { key: 'down', label: 'one tunnel, down', words: ['1', `${512 * MEBIBYTE}`], each: 0.5 },
  { key: 'up', label: 'one tunnel, up', words: ['1', `${512 * MEBIBYTE}`], each: 0.5 },
]

/** Runs the benchmark. Answers 1 if the netns door is slower without a word than it may be. */
export async function main(args) {
  if (process.getuid?.() !== 0 || cpus().length < 2) {
    process.stderr.write('it takes root, and two processors: one for the proxy, one for the load\n')
    return 4
  }
  if (spawnSync('docker', ['image', 'inspect', IMAGE]).status !== 0) {
    process.stderr.write(`no engine, or no image ${IMAGE}: scripts/test-image.sh makes it\n`)
    return 4
  }
  const folder = mkdtempSync(path.join(tmpdir(), 'bench-door-'))
  const source = path.join(import.meta.dirname, 'proxy/load.c')
  const workspace = path.join(folder, 'workspace')
  mkdirSync(workspace)
  const load = path.join(workspace, 'load')
  let upstream
  try {
    execFileSync('cc', ['-O2', '-static', '-o', load, source])
    const port = 7_400
    upstream = spawn('taskset', ['-c', LOAD_CORE, load, 'upstream', '127.0.0.1', String(port)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    await new Promise((resolve) => upstream.stdout.once('data', resolve))
    const doors = []
    for (const door of ['netns', 'sidecar']) {
      doors.push({ door, rows: await measureDoor(door, { folder, workspace, load, port }) })
    }
    const text = args.includes('--json') ? `${JSON.stringify(doors)}\n` : table(doors)
    process.stdout.write(text)
    const [netns] = doors
    return netns.rows.some(({ rate }) => rate.median < LEAST) ? 1 : 0
  } finally {
    upstream?.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
}

async function measureDoor(door, { folder, workspace, load, port }) {
  writeFileSync(
    path.join(workspace, 'workflow.yaml'),
    `name: bench
sandbox: { image: ${IMAGE}, network: { rules: ["${NAME}:443"] } }
nodes: [{ id: only, command: "echo up; sleep 600" }]
`,
  )
  const home = path.join(folder, door)
  const words = ['run', '--door', door, '--resolve', `${NAME}:127.0.0.1:${port}`, 'workflow.yaml']
  const own = spawn('taskset', ['-c', PROXY_CORE, process.execPath, PROGRAM, ...words], {
    cwd: workspace,
    env: { PATH: process.env.PATH, HOME: folder, TMPDIR: tmpdir(), ITERION_HOME: home },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    await new Promise((resolve, reject) => {
      own.stdout.once('data', resolve)
      own.once('exit', () => reject(new Error(`the run through the ${door} door ended early`)))
    })
    const [id] = readdirSync(path.join(home, 'runs')).filter((entry) => !entry.startsWith('.'))
    const inside = (...command) => run('docker', ['exec', `iterion-${id}`, ...command])
    const address = (await inside('getent', 'ahostsv4', NAME)).stdout.split(' ')[0]
    const relays = await relaysOf(id)
    const pids = [own.pid, ...relays]
    for (const pid of relays) spawnSync('taskset', ['-a', '-cp', PROXY_CORE, String(pid)])
    const ways = {
      asked: ['127.0.0.1:3128', `${NAME}=127.0.0.1:443`],
      unaware: ['direct', `${NAME}=${address}:443`],
    }
    const measure = async ({ key, words: how, each }, way) => {
      const before = sum(pids)
      const { stdout } = await inside('taskset', '-c', LOAD_CORE, load, key, ...ways[way], ...how)
      await sleep(100)
      const { seconds, failed } = JSON.parse(stdout)
      return { rate: each / seconds, cost: (sum(pids) - before) / each, failed }
    }
    const rows = []
    for (const figure of FIGURES) rows.push(await compare(figure, measure))
    return rows
  } finally {
    own.kill('SIGTERM')
    await new Promise((resolve) => (own.exitCode === null ? own.once('exit', resolve) : resolve()))
  }
}

const sum = (pids) => pids.reduce((all, pid) => all + cpuOf(pid), 0)

/** The first processes of the containers of a run beside its own: the relay, if there is one. */
async function relaysOf(id) {
  const label = `label=com.github.socialgouv.iterion-egress.run=${id}`
  const { stdout } = await run('docker', ['ps', '-q', '--filter', label, '--filter', 'name=door'])
  const ids = stdout.split('\n').filter((line) => line !== '')
  return ids.map((one) =>
    Number(execFileSync('docker', ['inspect', '-f', '{{.State.Pid}}', one], { encoding: 'utf8' })),
  )
}

/** Rounds of both ways, the first one first in every other round. The round before them is not counted. */
async function compare(figure, measure) {
  const rounds = []
  for (let i = 0; i <= ROUNDS; i++) {
    const found = {}
    const order = i % 2 === 0 ? ['asked', 'unaware'] : ['unaware', 'asked']
    for (const way of order) found[way] = await measure(figure, way)
    if (i > 0) rounds.push(found)
  }
  const ratio = (value) => spread(rounds.map(({ asked, unaware }) => unaware[value] / asked[value]))
  const median = (way, value) => spread(rounds.map((one) => one[way][value])).median
  return {
    key: figure.key,
    label: figure.label,
    failed: rounds.reduce((all, { asked, unaware }) => all + asked.failed + unaware.failed, 0),
    asked: { rate: median('asked', 'rate'), cost: median('asked', 'cost') },
    unaware: { rate: median('unaware', 'rate'), cost: median('unaware', 'cost') },
    rate: ratio('rate'),
    cost: ratio('cost'),
  }
}

function spread(values) {
  const sorted = values.toSorted((a, b) => a - b)
  const median = sorted[Math.floor(sorted.length / 2)]
  return { median, isNoisy: (sorted.at(-1) - sorted[0]) / median > MOST_SPREAD }
}

function table(doors) {
  const mark = ({ median, isNoisy }) => `${median.toFixed(2)}${isNoisy ? ' (noisy)' : ''}`
  const unit = { connect: '/s', down: ' GiB/s', up: ' GiB/s' }
  const value = (key, rate) =>
    `${key === 'connect' ? Math.round(rate) : rate.toFixed(2)}${unit[key]}`
  const lines = doors.flatMap(({ door, rows }) =>
    rows.map(({ key, label, asked, unaware, rate, cost, failed }) =>
      [
        door,
        label,
        value(key, asked.rate),
        value(key, unaware.rate),
        mark(rate),
        mark(cost),
        String(failed),
      ].join(' | '),
    ),
  )
  const head = 'door | load | proxy port | unaware | rate, ratio | CPU of ours, ratio | failed'
  return `${[head, head.replaceAll(/[^|]+/g, ' --- ').trim(), ...lines].map((line) => `| ${line} |`).join('\n')}\n`
}
