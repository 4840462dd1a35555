// The proxy beside others, in one run: what each exchange costs the proxy's processes, and what clients see. Everything is in
// a network namespace of its own, on loopback alone; each proxy has one processor, load and upstream the other.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { cpus, release, tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { FIGURES, measure, measureIdle, WORKERS } from './proxy/figures.js'
import { endPeer, installPeers, peersIn, startPeer, versions } from './proxy/peers.js'
import { judge, renderTable } from './proxy/report.js'

const HERE = path.join(import.meta.dirname, 'proxy')
const INSIDE = 'BENCH_INSIDE'
const ROUNDS = 3
/** How many times as much the warm-up has of what is counted. */
const WARM_UP = 2
const IDLE = [5_000, 9_500]
/** The one host that there is: it lies on the loopback of the namespace. */
const HOST = { name: 'upstream.bench.example', address: '11.22.33.44', port: 443 }
const PROXY_CORE = '0'
const LOAD_CORE = '1'
const FIRST_PORT = 7_000

/**
 * Runs the benchmark. `--only KEY,…` measures these proxies alone, `--figures KEY,…` these figures (`idle`, `workers` and
 * `start` among them), `--rounds N` another number of rounds, `--profile FOLDER` writes a profile of ours there.
 */
export async function main(args) {
  if (process.env[INSIDE] !== undefined) return inside(args, process.env[INSIDE])
  if (cpus().length < 2) {
    process.stderr.write('it takes two processors: one for the proxy, one for the load\n')
    return 4
  }
  const folder = mkdtempSync(path.join(tmpdir(), 'bench-proxy-'))
  // Squid writes its logs as a user of its own.
  chmodSync(folder, 0o777)
  try {
    for (const name of ['load', 'splice-relay']) {
      execFileSync('cc', ['-O2', '-o', path.join(folder, name), path.join(HERE, `${name}.c`)])
    }
    installPeers()
    const own = process.getuid?.() === 0 ? [] : ['--map-root-user']
    const words = [process.execPath, path.join(import.meta.dirname, 'index.js'), 'proxy', ...args]
    // What is killed takes all of its namespace with it.
    const apart = ['--net', '--mount', '--pid', '--fork', '--kill-child', '--mount-proc']
    const child = spawn('unshare', [...own, ...apart, '--', ...words], {
      stdio: 'inherit',
      env: { PATH: process.env.PATH, HOME: folder, TMPDIR: tmpdir(), [INSIDE]: folder },
    })
    const ended = once(child, 'exit')
    for (const name of ['SIGINT', 'SIGTERM']) process.once(name, () => child.kill('SIGKILL'))
    const [status] = await ended
    return status ?? 4
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function inside(args, folder) {
  prepareNamespace(folder)
  const load = { program: path.join(folder, 'load'), core: LOAD_CORE }
  const { name, address, port } = HOST
  const targets = {
    name: `${name}=${address}:${port}`,
    address: `${address}=${address}:${port}`,
    denied: `denied.bench.example=${address}:${port}`,
  }
  const upstream = spawn(
    'taskset',
    ['-c', LOAD_CORE, load.program, 'upstream', address, String(port)],
    {
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  await new Promise((resolve) => upstream.stdout.once('data', resolve))
  const only = valueOf(args, '--only')?.split(',')
  const rounds = Number(valueOf(args, '--rounds') ?? ROUNDS)
  const relay = path.join(folder, 'splice-relay')
  const profile = valueOf(args, '--profile')
  const peers = peersIn(folder, { ...HOST, relay, profile }).filter(
    ({ key }) => only?.includes(key) ?? true,
  )
  const wanted = valueOf(args, '--figures')?.split(',')
  const chosen = FIGURES.filter(({ key }) => wanted?.includes(key) ?? true)
  const running = []
  try {
    for (const [i, peer] of peers.entries()) {
      running.push({
        ...peer,
        port: FIRST_PORT + i,
        child: await startPeer(peer, FIRST_PORT + i, PROXY_CORE),
      })
    }
    const figures = await measureAll(load, running, { chosen, targets, rounds })
    const hasIdle = wanted?.includes('idle') ?? true
    const idle = hasIdle ? await measureAllIdle(load, peers, targets) : []
    const ours = peers.find(({ key }) => key === 'ours')
    const hasWorkers = ours !== undefined && (wanted?.includes('workers') ?? true)
    const workers = hasWorkers ? await measureWorkers(load, ours, targets, rounds) : []
    const start = (wanted?.includes('start') ?? true) ? await measureStarts(peers, rounds) : []
    const result = {
      date: new Date().toISOString(),
      machine: `${cpus()[0]?.model ?? ''}, ${cpus().length} processors, Linux ${release()}, Node ${process.version}`,
      rounds,
      versions: versions(),
      peers: peers.map(({ key, label }) => ({ key, label })),
      figures,
      idle,
      workers,
      start,
    }
    const judged = judge(result)
    process.stdout.write(
      args.includes('--json')
        ? `${JSON.stringify({ ...result, ...judged })}\n`
        : renderTable(result, judged),
    )
    return judged.budgets.some(({ verdict }) => verdict === 'OVER' || verdict === 'FAILED') ? 1 : 0
  } finally {
    for (const { child } of running) await endPeer(child)
    upstream.kill()
  }
}

/** Loopback with the one host on it, its name in a hosts file, and ports enough for short connections. */
function prepareNamespace(folder) {
  const ip = (...words) => execFileSync('ip', words)
  ip('link', 'set', 'lo', 'up')
  ip('address', 'add', `${HOST.address}/32`, 'dev', 'lo')
  writeFileSync('/proc/sys/net/ipv4/ip_local_port_range', '20000 65535')
  writeFileSync('/proc/sys/net/ipv4/tcp_tw_reuse', '1')
  // Squid keeps what its processes share there, under one name.
  execFileSync('mount', ['-t', 'tmpfs', 'tmpfs', '/dev/shm'])
  for (const [file, text] of [
    ['hosts', `127.0.0.1 localhost\n${HOST.address} ${HOST.name} ${HOST.name}.\n`],
    ['resolv.conf', '# nobody answers here\n'],
    ['nsswitch.conf', 'hosts: files\n'],
  ]) {
    writeFileSync(path.join(folder, file), text)
    execFileSync('mount', ['--bind', path.join(folder, file), `/etc/${file}`])
  }
}

/** Every figure of every proxy, round after round, so that what the machine does meanwhile hits all alike. */
async function measureAll(load, running, { chosen, targets, rounds }) {
  const found = chosen.map(({ key, label, bytes }) => ({
    key,
    label,
    isBytes: bytes !== undefined,
    direct: [],
    peers: {},
  }))
  for (let round = -1; round < rounds; round++) {
    for (const [i, one] of chosen.entries()) {
      // Round -1 warms up: caches, pools, and compilers that only compile for good what has run some ten thousand times.
      const figure = round < 0 && one.count ? { ...one, count: WARM_UP * one.count } : one
      const note = (list, value) => round >= 0 && list.push(value)
      const { direct, peers } = found[i]
      process.stderr.write(`${round < 0 ? 'warm-up' : `round ${round + 1}`}: ${figure.label}\n`)
      if (figure.mode !== 'deny')
        note(direct, await measure(load, figure, 'direct', undefined, targets))
      for (const { key, port, child } of rotated(running, round + 1)) {
        // The floor carries tunnels, and decides nothing.
        if (['deny', 'get'].includes(figure.mode) && key === 'floor') continue
        note(
          (peers[key] ??= []),
          await measure(load, figure, `127.0.0.1:${port}`, child.pid, targets),
        )
      }
    }
  }
  return found
}

/** In another order each round: what comes behind a load that costs the machine much pays for it. */
function rotated(list, by) {
  return list.map((_, i) => list[(i + by) % list.length])
}

/** Each number of tunnels on a proxy that was just started. */
async function measureAllIdle(load, peers, targets) {
  const found = []
  let port = FIRST_PORT + 100
  for (const tunnels of IDLE) {
    const row = { tunnels, peers: {} }
    for (const peer of peers) {
      if (peer.isIdle === false) continue
      const child = await startPeer(peer, ++port, PROXY_CORE)
      await sleep(500)
      row.peers[peer.key] = await measureIdle(
        load,
        `127.0.0.1:${port}`,
        child.pid,
        targets.name,
        tunnels,
      )
      await endPeer(child)
    }
    found.push(row)
  }
  return found
}

/**
 * One worker and two, in turn. Both may have both processors, and load and upstream stay on theirs: with two processors that
 * is all there is. One worker so has a processor for itself, while the second one of two shares its own with the load, which
 * takes a tenth of what a worker takes: the ratio is rather too low than too high. A machine with more processors would
 * give each of them one.
 */
async function measureWorkers(load, ours, targets, rounds) {
  const { counts, figure } = WORKERS
  const running = []
  try {
    for (const [i, count] of counts.entries()) {
      const port = FIRST_PORT + 300 + i
      const peer = { ...ours, start: (own) => ours.startWorkers(own, count) }
      const child = await startPeer(peer, port, `${PROXY_CORE},${LOAD_CORE}`)
      running.push({ count, port, child, values: [] })
    }
    for (let round = -1; round < rounds; round++) {
      process.stderr.write(`${round < 0 ? 'warm-up' : `round ${round + 1}`}: workers\n`)
      for (const { port, child, values } of rotated(running, round + 1)) {
        const value = await measure(load, figure, `127.0.0.1:${port}`, child.pid, targets)
        if (round >= 0) values.push(value)
      }
    }
    return running.map(({ count, values }) => ({ count, values }))
  } finally {
    for (const { child } of running) await endPeer(child)
  }
}

/** How long each takes until it listens, in milliseconds, round after round. */
async function measureStarts(peers, rounds) {
  let port = FIRST_PORT + 200
  const found = peers.map(({ key, label }) => ({ key, label, ms: [] }))
  for (let round = -1; round < rounds; round++) {
    for (const [i, peer] of peers.entries()) {
      const before = performance.now()
      const child = await startPeer(peer, ++port, PROXY_CORE)
      if (round >= 0) found[i].ms.push(performance.now() - before)
      await endPeer(child)
    }
  }
  return found
}

function valueOf(args, name) {
  const at = args.indexOf(name)
  return at === -1 ? undefined : args[at + 1]
}
