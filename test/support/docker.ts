import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import { type ContainerRuntime, runtimeCommand } from '../../src/door/container-runtime.ts'
import { systemSpawner } from '../../src/door/spawn.ts'
import { makeCertificate } from './certificate.ts'

/** The image that stands for a user's sandbox. CI makes it from Debian's packages. */
export const TEST_IMAGE = 'iterion-egress-test:latest'

/** The project's own image, built on {@link TEST_IMAGE} by {@link buildProjectImage}. */
export const PROJECT_IMAGE = 'iterion-egress:test'

/** Why tests with containers cannot run here; false if they can. For the `skip` of a test: in CI a skip is a failure. */
export const NO_ENGINE: string | false = whyNoEngine()

/** Ports of {@link startOutside} besides 80 and 443: one sends back what it gets, one resets at the first byte. */
export const ECHO_PORT = 7_000
export const RESET_PORT = 7_001

function whyNoEngine(): string | false {
  const { status, error } = spawnSync('docker', ['image', 'inspect', TEST_IMAGE])
  if (error) return 'there is no docker here'
  return status === 0 ? false : `docker does not answer, or has no ${TEST_IMAGE}`
}

/** The engine of this machine as the product drives it. */
export function testRuntime(): ContainerRuntime {
  const { PATH } = process.env
  return {
    name: 'docker',
    program: 'docker',
    globalArgs: [],
    env: { ...(PATH !== undefined && { PATH }), LC_ALL: 'C' },
    spawn: systemSpawner,
  }
}

/** Runs a docker command and gives what it printed, without the last line break. A failure of it throws. */
export async function docker(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await runtimeCommand(testRuntime(), args)
  if (code !== 0) throw new Error(`docker ${args.join(' ')}: ${stderr}`)
  return stdout.replace(/\n$/, '')
}

/** A name that no other test has. */
export function uniqueName(what: string): string {
  return `iterion-test-${what}-${randomBytes(5).toString('hex')}`
}

/** A short folder for this test alone, mode 0700. */
export function shortFolder(t: Test): string {
  const folder = mkdtempSync(path.join(tmpdir(), 'iet-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  return folder
}

/** Starts a container that sleeps, and gives its full id; it goes with the test. Default: no network. */
export async function startSleeper(t: Test, ...options: readonly string[]): Promise<string> {
  const network = options.includes('--network') ? [] : ['--network', 'none']
  const name = uniqueName('sleeper')
  t.teardown(() => docker('rm', '-f', '-v', name).catch(() => undefined))
  const args = ['--rm', '--init', '--name', name, ...network, ...options]
  return docker('run', '-d', ...args, TEST_IMAGE, 'sleep', '300')
}

/** Builds {@link PROJECT_IMAGE} from the tree as it is built. Needs no network; what has not changed is cached. */
export async function buildProjectImage(): Promise<string> {
  const folder = mkdtempSync(path.join(tmpdir(), 'iet-'))
  const root = path.resolve(import.meta.dirname, '../..')
  try {
    const made = spawnSync(process.execPath, [path.join(root, 'scripts/image-context.js'), folder])
    if (made.status !== 0) throw new Error(made.stderr.toString())
    const base = ['--build-arg', `BASE=${TEST_IMAGE}`]
    await docker('build', ...base, '-t', PROJECT_IMAGE, folder)
    return PROJECT_IMAGE
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The outside world of a test: a container on a bridge network of its own. */
export interface Outside {
  /** Its address, which this machine reaches over the bridge. */
  readonly address: string
  /** The address of the bridge on this machine. */
  readonly gateway: string
  /** The certificate for `*.test` names of its port 443, PEM. */
  readonly certificate: string
  /** Everything that came to it so far, a line each: `http GET /path`, `https ...`, `echo`, `reset`, `broken`. */
  log(): Promise<string[]>
}

const OUTSIDE_PROGRAM = `
  const net = require('net'), http = require('http'), https = require('https')
  const say = (line) => process.stdout.write(line + '\\n')
  const answer = (scheme) => (req, res) => {
    say(scheme + ' ' + req.method + ' ' + req.url)
    let size = 0
    req.on('data', (chunk) => { size += chunk.length })
    req.on('end', () => res.end('outside ' + size + '\\n'))
  }
  http.createServer(answer('http')).listen(80)
  https.createServer({ key: process.env.KEY, cert: process.env.CERT }, answer('https')).listen(443)
  net.createServer({ allowHalfOpen: true }, (socket) => {
    say('echo')
    socket.on('error', (error) => say('broken ' + error.code))
    socket.pipe(socket)
  }).listen(${ECHO_PORT})
  net.createServer((socket) => {
    say('reset')
    socket.on('error', () => undefined)
    socket.on('data', () => socket.resetAndDestroy())
  }).listen(${RESET_PORT}, () => say('ready'))
  process.on('SIGTERM', () => process.exit(0))
`

/** Starts an outside world that serves HTTP on 80, TLS on 443, {@link ECHO_PORT} and {@link RESET_PORT}. */
export async function startOutside(t: Test, ...names: readonly string[]): Promise<Outside> {
  const { key, cert } = makeCertificate('outside.test', '*.outside.test', ...names)
  const network = uniqueName('net')
  const container = uniqueName('outside')
  t.teardown(async () => {
    await docker('rm', '-f', '-v', container).catch(() => undefined)
    await docker('network', 'rm', network).catch(() => undefined)
  })
  await docker('network', 'create', network)
  const env = ['-e', `KEY=${key}`, '-e', `CERT=${cert}`]
  const place = ['--rm', '--name', container, '--network', network]
  await docker('run', '-d', ...place, ...env, TEST_IMAGE, 'node', '-e', OUTSIDE_PROGRAM)
  const log = async () =>
    (await docker('logs', container)).split('\n').filter((line) => line !== '')
  while (!(await log()).includes('ready')) await new Promise((resolve) => setTimeout(resolve, 20))
  const format = '{{range .NetworkSettings.Networks}}{{.IPAddress}} {{.Gateway}}{{end}}'
  const [address = '', gateway = ''] = (await docker('inspect', '-f', format, container)).split(' ')
  return {
    address,
    gateway,
    certificate: cert,
    log: async () => (await log()).filter((line) => line !== 'ready'),
  }
}
