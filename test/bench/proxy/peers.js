// Every proxy that is measured, and how it is started: with a policy that lets the same host through, as its users run it.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import path from 'node:path'

const ROOT = path.resolve(import.meta.dirname, '../../..')
/** Where packages of npm are installed that only this benchmark needs. */
const PACKAGES = path.join(ROOT, '.cache/bench-peers')
const NPM = { 'proxy-chain': '3.0.1', '@anthropic-ai/sandbox-runtime': '0.0.78' }

/** Installs what comes from npm, before there is no way out any more. */
export function installPeers() {
  mkdirSync(PACKAGES, { recursive: true })
  const manifest = path.join(PACKAGES, 'package.json')
  const wanted = JSON.stringify({ private: true, type: 'module', dependencies: NPM })
  if (existsSync(path.join(PACKAGES, 'node_modules/proxy-chain'))) return
  writeFileSync(manifest, wanted)
  execFileSync('npm', ['install', '--silent', '--no-audit', '--no-fund'], {
    cwd: PACKAGES,
    stdio: ['ignore', 'ignore', 'inherit'],
  })
}

/** The peers that are here, ours first, the floor last. */
export function peersIn(folder, { name, address, port, relay, profile }) {
  const write = (file, text) => {
    writeFileSync(path.join(folder, file), text)
    return path.join(folder, file)
  }
  const script = (file, text) => {
    writeFileSync(path.join(PACKAGES, file), text)
    return path.join(PACKAGES, file)
  }
  const rules = Array.from({ length: 1_000 }, (_, i) => `  - host-${i}.bench.example`)
  const policy = write(
    'policy.yaml',
    `presets: [iterion-default]\nrules:\n${rules.join('\n')}\n  - "${name}:${port}"\n  - "${address}:${port}"\n`,
  )
  const limits = ['maxTunnels=20000']
  const profiling =
    profile === undefined ? [] : ['--cpu-prof', '--cpu-prof-dir', path.resolve(profile)]
  const ours = (own, ...more) => [
    process.execPath,
    ...profiling,
    path.join(ROOT, 'bin/iterion-egress.js'),
    'serve',
    '--policy',
    policy,
    '--listen',
    `127.0.0.1:${own}`,
    '--events',
    path.join(folder, `events-${own}.jsonl`),
    ...limits.flatMap((one) => ['--limit', one]),
    ...more,
  ]
  return [
    {
      key: 'ours',
      label: 'iterion-egress',
      start: (own) => ours(own),
      startWorkers: (own, workers) => ours(own, '--workers', String(workers)),
    },
    {
      key: 'squid',
      label: 'squid',
      needs: '/usr/sbin/squid',
      start: (own) => [
        '/usr/sbin/squid',
        '-N',
        '-f',
        write(
          `squid-${own}.conf`,
          `http_port 127.0.0.1:${own}
acl ok dstdomain ${name}
acl okip dst -n ${address}
acl SSL_ports port ${port}
http_access allow ok
http_access allow okip
http_access deny all
cache deny all
cache_mem 0 MB
access_log daemon:${folder}/squid-${own}.log
cache_log ${folder}/squid-cache-${own}.log
pid_filename ${folder}/squid-${own}.pid
coredump_dir ${folder}
cache_effective_user proxy
visible_hostname bench
url_rewrite_extras "%>ru"
shutdown_lifetime 0 seconds
max_filedescriptors ${descriptors()}
`,
        ),
      ],
    },
    {
      key: 'tinyproxy',
      label: 'tinyproxy',
      needs: '/usr/bin/tinyproxy',
      // It keeps a process or a thread for each.
      isIdle: false,
      start: (own) => [
        '/usr/bin/tinyproxy',
        '-d',
        '-c',
        write(
          `tinyproxy-${own}.conf`,
          `Port ${own}
Listen 127.0.0.1
Timeout 600
MaxClients 1000
LogFile "${folder}/tinyproxy.log"
LogLevel Connect
Filter "${write('filter', `^${name}$\n^${address.replaceAll('.', '\\.')}$\n`)}"
FilterDefaultDeny Yes
FilterExtended On
ConnectPort ${port}
`,
        ),
      ],
    },
    {
      key: 'proxy-chain',
      label: 'proxy-chain (npm)',
      start: (own) => [
        process.execPath,
        script(
          `proxy-chain-${own}.js`,
          `import { Server, RequestError } from 'proxy-chain'
const allowed = new Set(['${name}', '${address}'])
const server = new Server({
  host: '127.0.0.1',
  port: ${own},
  prepareRequestFunction({ hostname }) {
    if (!allowed.has(hostname)) throw new RequestError('no', 403)
    return {}
  },
})
await server.listen()
`,
        ),
      ],
    },
    {
      key: 'sandbox-runtime',
      label: 'sandbox-runtime (npm)',
      start: (own) => [
        process.execPath,
        script(
          `sandbox-runtime-${own}.js`,
          `import { createHttpProxyServer } from './node_modules/@anthropic-ai/sandbox-runtime/dist/sandbox/http-proxy.js'
const allowed = new Set(['${name}', '${address}'])
const server = createHttpProxyServer({ filter: async (port, host) => allowed.has(host) })
server.listen(${own}, '127.0.0.1')
`,
        ),
      ],
    },
    {
      key: 'floor',
      label: 'splice relay in C',
      // Its pipes are more than a user may have.
      isIdle: false,
      start: (own) => [relay, String(own), `${address}:${port}`],
    },
  ].filter(({ needs }) => needs === undefined || existsSync(needs))
}

/** The most descriptors that a process here may have. */
function descriptors() {
  return Number(
    /^Max open files\s+\d+\s+(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8'))?.[1],
  )
}

/** Starts a peer on a processor, or on several, and waits until it listens. */
export async function startPeer(peer, port, cores) {
  const [program, ...args] = peer.start(port)
  const child = spawn('taskset', ['-c', cores, program, ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let complaints = ''
  child.stderr
    .setEncoding('utf8')
    .on('data', (text) => (complaints = `${complaints}${text}`.slice(-2_000)))
  for (const end = Date.now() + 15_000; ;) {
    if (child.exitCode !== null) throw new Error(`${peer.label} ended: ${complaints}`)
    if (await listens(port)) return child
    if (Date.now() > end) throw new Error(`${peer.label} does not listen: ${complaints}`)
    await new Promise((resolve) => setTimeout(resolve, 2))
  }
}

/** Ends a peer that {@link startPeer} started. */
export async function endPeer(child) {
  if (child.exitCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), 3_000)
  await ended
  clearTimeout(timer)
}

/** The version of what is measured beside us. */
export function versions() {
  const first = (program, ...args) =>
    spawnSync(program, args, { encoding: 'utf8' }).stdout?.split('\n')[0]?.trim() ?? ''
  return {
    squid: first('/usr/sbin/squid', '-v'),
    tinyproxy: first('/usr/bin/tinyproxy', '-v'),
    ...NPM,
  }
}

function listens(port) {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
