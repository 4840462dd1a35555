import { type ContainerRuntime, runtimeCommand } from '../door/container-runtime.ts'
import { formatGoDuration, parseGoDuration } from './duration.ts'
import { assertSandboxable } from './backend.ts'
import { assertBuildable } from './build-image.ts'
import { type Check, fail, failedWith, pass, warn } from './doctor-check.ts'
import { checkDoors } from './doctor-doors.ts'
import type { Driver, ImageInfo } from './driver.ts'
import { createDockerDriver } from './drivers/docker.ts'
import { findRuntime } from './drivers/find-runtime.ts'
import { findRemoteImage } from './drivers/remote-image.ts'
import type { SandboxHost } from './host.ts'
import { readKnobs } from './knobs.ts'
import { readLimits } from './limits.ts'
import { describeSandbox, imageName } from './plan-run.ts'
import { readPlan, type RunOptions, type RunPlan, type RunSource } from './run-plan.ts'
import { checkStore } from './run-store.ts'
import type { SandboxRequest } from './sandbox.ts'
import { sandboxRequest, sidecarImage } from './sandbox-request.ts'

/** What is to be examined. */
export interface DoctorQuestion {
  /** The run; undefined: this machine alone. */
  readonly source: RunSource | undefined
  readonly options: RunOptions
  /** True: the registry is asked for an image that is not here, and the doors are tried. */
  readonly isStrict: boolean
  /** `local`: for a machine with a runtime, whether or not this one has one. */
  readonly target: 'auto' | 'local'
}

/** Variables that decide about a run, and are told if they are set. */
const TOLD =
  /^ITERION_(?:HOME|BIN|SANDBOX_(?:OVERRIDE|DEFAULT|FLOOR|DEFAULT_IMAGE|HOST_STATE|HOST_STATE_GUARD|RUNTIME|SIDECAR_IMAGE|MEMORY|PIDS|\w+_TIMEOUT))$/

const TIMEOUT_KNOB = 'ITERION_SANDBOX_DOCTOR_TIMEOUT'
const DEFAULT_TIMEOUT_MS = 5_000

/**
 * Looks at everything that a run needs before there is one. Each question to the engine has the bound of
 * `ITERION_SANDBOX_DOCTOR_TIMEOUT` (5s). Nothing is recorded; what is started for a trial is removed.
 */
export async function examine(
  host: SandboxHost,
  question: DoctorQuestion,
): Promise<readonly Check[]> {
  const { timeoutMs, checks } = readTimeout(host)
  checks.push(...checkVariables(host), checkFolder(host))
  const spec = question.source ? await checkSpec(host, question, question.source) : undefined
  checks.push(...(spec?.checks ?? []))
  const { runtime, check } = lookForRuntime(host, question, spec?.plan)
  checks.push(check)
  if (runtime === undefined) return checks
  const daemon = await checkDaemon(runtime, timeoutMs)
  checks.push(daemon)
  const driver = createDockerDriver(runtime)
  const site = { host, runtime, driver, timeoutMs, question }
  const asked = spec?.plan && askedOf(site, spec.plan)
  if (asked && 'name' in asked) checks.push(asked)
  const request = asked && 'request' in asked ? asked.request : undefined
  const isUp = daemon.status === 'pass'
  const image = request && isUp ? await checkImage(site, request) : undefined
  checks.push(...(image?.checks ?? []))
  if (spec?.plan && request) checks.push(checkSafety(host, spec.plan, request, image))
  if (isUp) checks.push(...(await checkDoorsOf(site, request, image?.found)))
  return checks
}

interface Site {
  readonly host: SandboxHost
  readonly runtime: ContainerRuntime
  readonly driver: Driver
  readonly timeoutMs: number
  readonly question: DoctorQuestion
}

function readTimeout({ env }: SandboxHost): { timeoutMs: number; checks: Check[] } {
  const text = env[TIMEOUT_KNOB]
  if (text === undefined) return { timeoutMs: DEFAULT_TIMEOUT_MS, checks: [] }
  const ms = parseGoDuration(text)
  if (ms !== undefined && ms > 0 && ms <= 24 * 3_600_000) {
    return { timeoutMs: Math.ceil(ms), checks: [] }
  }
  const applied = formatGoDuration(DEFAULT_TIMEOUT_MS)
  return {
    timeoutMs: DEFAULT_TIMEOUT_MS,
    checks: [
      warn(
        'knobs',
        `${TIMEOUT_KNOB}=${JSON.stringify(text)} is no duration above 0 and up to 24h; ${applied} applies`,
        'write a duration, such as 5s',
      ),
    ],
  }
}

/** Floors, defaults and bounds in force, and those that cannot be used. */
function checkVariables(host: SandboxHost): Check[] {
  const { env } = host
  const { warnings } = readKnobs(env)
  const limits = readLimits(env, host.memoryBytes)
  const wrong = [...warnings, ...limits.warnings]
  const told = Object.entries(env)
    .filter(([name, value]) => TOLD.test(name) && value !== undefined)
    .map(([name, value]) => `${name}=${value}`)
  return [
    ...wrong.map((line) => warn('knobs', line, 'correct the variable, or unset it')),
    pass('variables', told.length > 0 ? told.toSorted().join(', ') : 'none is set'),
  ]
}

function checkFolder(host: SandboxHost): Check {
  try {
    return pass('run store', checkStore(host))
  } catch (error) {
    return failedWith('run store', error)
  }
}

/** Whether the workflow, its repository, its policy and the variables hold together. */
async function checkSpec(
  host: SandboxHost,
  { options }: DoctorQuestion,
  source: RunSource,
): Promise<{ readonly checks: readonly Check[]; readonly plan: RunPlan | undefined }> {
  let plan: RunPlan
  try {
    const { control: _, ...asked } = options
    plan = await readPlan(host, source, asked)
  } catch (error) {
    return { checks: [failedWith('spec', error)], plan: undefined }
  }
  const { decision, workflow, dropped } = plan
  const checks: Check[] = []
  if (decision.kind === 'refused' && decision.failureCode !== 'SANDBOX_DRIVER_UNAVAILABLE') {
    checks.push(fail('spec', decision.message, 'correct what is named'))
  } else {
    checks.push(pass('spec', `${workflow.file}: ${specText(plan)}`))
  }
  if (decision.kind === 'bare' && decision.warning !== undefined) {
    checks.push(warn('sandbox', decision.warning, 'say auto, or leave the word away'))
  }
  for (const { node, backend, reason } of dropped) {
    checks.push(warn('backends', `node ${node}: no fallback ${backend}: ${reason}`, 'take it out'))
  }
  if (decision.kind === 'sandboxed') {
    try {
      assertSandboxable(workflow.nodes)
    } catch (error) {
      checks.push(failedWith('backends', error))
    }
  }
  checks.push(await checkPolicy(plan))
  return { checks, plan }
}

function specText({ decision, network }: RunPlan): string {
  if (decision.kind !== 'sandboxed') return 'no sandbox'
  const { mode, container } = decision
  const chosen = container.from === 'repository' ? ', chosen by the repository' : ''
  return `sandbox ${mode}${chosen}, network ${network.kind}`
}

async function checkPolicy({ loadPolicy }: RunPlan): Promise<Check> {
  try {
    const policy = await loadPolicy()
    return pass('policy', policy ? `${policy.mode}, ${policy.rules.length} rules` : 'none: open')
  } catch (error) {
    return failedWith('policy', error)
  }
}

function lookForRuntime(
  host: SandboxHost,
  { target }: DoctorQuestion,
  plan: RunPlan | undefined,
): { readonly runtime?: ContainerRuntime; readonly check: Check } {
  try {
    const runtime = findRuntime(host)
    if (runtime) return { runtime, check: pass('runtime', `${runtime.name} at ${runtime.program}`) }
    const detail = 'no docker and no podman is on PATH'
    const isNeeded = target === 'auto' && plan?.decision.kind !== 'bare'
    return {
      check: (isNeeded ? fail : warn)('runtime', detail, 'install docker or podman'),
    }
  } catch (error) {
    return { check: failedWith('runtime', error) }
  }
}

async function checkDaemon(runtime: ContainerRuntime, timeoutMs: number): Promise<Check> {
  const remedy = 'start the engine, and see that this user may talk to it'
  // podman has no server of its own; its command line is the engine.
  const format = runtime.name === 'docker' ? '{{.Server.Version}}' : '{{.Client.Version}}'
  try {
    const args = ['version', '--format', format]
    const { code, stdout, stderr, stopped } = await runtimeCommand(runtime, args, { timeoutMs })
    if (code === 0) return pass('daemon', `${runtime.name} ${stdout.trim()}`)
    const why = stopped ? `no answer in ${timeoutMs / 1000} s` : stderr.trim().split('\n').at(-1)
    return fail('daemon', why ?? '', remedy)
  } catch (error) {
    return failedWith('daemon', error)
  }
}

/** What the run asks of its sandbox, or why it cannot. Undefined for a run without one. */
function askedOf(
  { host, question }: Site,
  plan: RunPlan,
): { readonly request: SandboxRequest } | Check | undefined {
  const { decision } = plan
  if (decision.kind !== 'sandboxed') return undefined
  try {
    const { request } = sandboxRequest(host, plan, decision, question.options, plan.loadPolicy)
    return { request }
  } catch (error) {
    return failedWith('fault' in decision.container ? 'repository' : 'secrets', error)
  }
}

interface FoundImage {
  readonly checks: readonly Check[]
  readonly name: string
  /** Undefined: it is not here. */
  readonly found: ImageInfo | undefined
}

/** Whether the image is here, or could be. */
async function checkImage(site: Site, request: SandboxRequest): Promise<FoundImage> {
  const { driver, runtime, timeoutMs, question } = site
  const signal = AbortSignal.timeout(timeoutMs)
  try {
    const name = await imageName(request, signal)
    const found = await driver.inspectImage(name, signal)
    if (found) return { checks: [pass('image', `${name} is here`)], name, found }
    if (typeof request.image !== 'string') {
      await assertBuildable(request, runtime, signal)
      return { checks: [pass('image', `${request.image.dockerfile} is to be built`)], name, found }
    }
    if (!question.isStrict) {
      const check = warn(
        'image',
        `${name} is not here`,
        'pull it, or let the run; --strict asks its registry',
      )
      return { checks: [check], name, found }
    }
    return { checks: [await askRegistry(runtime, name, timeoutMs)], name, found }
  } catch (error) {
    const why = signal.aborted ? `no answer in ${timeoutMs / 1000} s` : undefined
    const check =
      why === undefined ? failedWith('image', error) : fail('image', why, `raise ${TIMEOUT_KNOB}`)
    return { checks: [check], name: '', found: undefined }
  }
}

async function askRegistry(
  runtime: ContainerRuntime,
  name: string,
  timeoutMs: number,
): Promise<Check> {
  const remote = await findRemoteImage(runtime, name, timeoutMs)
  switch (remote.kind) {
    case 'there':
      return pass('image', `${name} is not here, and its registry has it`)
    case 'absent':
      return fail(
        'image',
        `${name} is not here, and its registry does not have it, or not for this user`,
        `correct its name, or log in to its registry`,
      )
    case 'unknown':
      return warn('image', `${name} is not here, and its registry: ${remote.why}`, 'pull it')
  }
}

function checkSafety(
  host: SandboxHost,
  plan: RunPlan,
  request: SandboxRequest,
  image: FoundImage | undefined,
): Check {
  try {
    const { found, name = '' } = image ?? { found: undefined }
    const asked = { request, warnings: [], from: 'block' as const, name, found }
    const { layout, denied } = describeSandbox(host, plan, asked)
    const names = denied.flatMap((one) => one.names)
    const taken = names.length > 0 ? `; taken out: ${names.join(', ')}` : ''
    return pass('safety', `${layout.mounts.length} mounts${taken}`)
  } catch (error) {
    return failedWith('safety', error)
  }
}

/** The doors, judged by what the run asks for: one that it needs and that does not work is a failure. */
async function checkDoorsOf(
  { host, runtime, driver, timeoutMs, question }: Site,
  request: SandboxRequest | undefined,
  found: ImageInfo | undefined,
): Promise<readonly Check[]> {
  const relay = sidecarImage(host, question.options)
  const signal = AbortSignal.timeout(timeoutMs)
  const lookAt = () => driver.inspectImage(relay, signal).catch(() => undefined)
  const image = question.isStrict ? (found ?? (await lookAt())) : undefined
  const checks = await checkDoors({
    host,
    runtime,
    driver,
    sidecarImage: relay,
    image,
    timeoutMs,
  })
  const isWanted = request === undefined || request.hasPolicy
  const { door } = question.options.flags
  if (!isWanted || door === 'advisory') return checks
  const works = checks.some(({ status }) => status === 'pass')
  return checks.map((check) => {
    const isMeant = door === 'auto' ? !works : check.name === `door ${door}`
    return check.status === 'warn' && isMeant ? { ...check, status: 'fail' as const } : check
  })
}
