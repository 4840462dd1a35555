import { type ContainerRuntime, runtimeCommand } from '../door/container-runtime.ts'
import { formatGoDuration, parseGoDuration } from './duration.ts'
import { assertSandboxable } from './backend.ts'
import { bareSite } from './bare-site.ts'
import { type Check, fail, failedWith, pass, warn } from './doctor-check.ts'
import { checkDoors } from './doctor-doors.ts'
import { checkSeal } from './doctor-seal.ts'
import {
  boundOf,
  checkImage,
  type DoctorQuestion,
  type FoundImage,
  type Site,
  TIMEOUT_KNOB,
} from './doctor-image.ts'
import type { ImageInfo } from './driver.ts'
import { createDockerDriver } from './drivers/docker.ts'
import { findRuntime } from './drivers/find-runtime.ts'
import type { SandboxHost } from './host.ts'
import { readKnobs } from './knobs.ts'
import { readLimits } from './limits.ts'
import { describeSandbox } from './plan-run.ts'
import { readPlan, type RunPlan, type RunSource } from './run-plan.ts'
import { checkStore } from './run-store.ts'
import type { SandboxRequest } from './sandbox.ts'
import { ADVISORY } from './sandbox-network.ts'
import { sandboxRequest, sidecarImage } from './sandbox-request.ts'

/** Variables that decide about a run, and are told if they are set. */
const TOLD =
  /^ITERION_(?:HOME|BIN|SANDBOX_(?:OVERRIDE|DEFAULT|FLOOR|DEFAULT_IMAGE|HOST_STATE|HOST_STATE_GUARD|RUNTIME|SIDECAR_IMAGE|MEMORY|PIDS|\w+_TIMEOUT))$/

const DEFAULT_TIMEOUT_MS = 5_000

/**
 * Looks at everything that a run needs before there is one. Each question to the engine has the bound of
 * `ITERION_SANDBOX_DOCTOR_TIMEOUT` (5s). Nothing is recorded; what is started for a trial is removed.
 *
 * @throws {Cancelled} if it was asked to end, once nothing is left of a trial
 */
export async function examine(
  host: SandboxHost,
  question: DoctorQuestion,
): Promise<readonly Check[]> {
  const { timeoutMs, checks } = readTimeout(host)
  const end = question.options.control.signal
  checks.push(...checkVariables(host), checkFolder(host))
  const spec = question.source ? await checkSpec(host, question, question.source) : undefined
  checks.push(...(spec?.checks ?? []))
  // Without a sandbox no engine is asked.
  const kind = spec?.plan?.decision.kind
  if (spec?.plan && (kind === 'bare' || kind === 'sealed')) {
    checks.push(...checkBare(host, question, spec.plan))
    if (kind === 'sealed') checks.push(await checkSeal({ host, question, timeoutMs, end }))
    end.throwIfAborted()
    return checks
  }
  const { runtime, check } = lookForRuntime(host, question)
  checks.push(check)
  if (runtime === undefined) {
    const plan = question.target === 'local' ? spec?.plan : undefined
    return [...checks, ...(plan ? judgeElsewhere(host, question, plan) : [])]
  }
  const daemon = await checkDaemon(runtime, timeoutMs, end)
  end.throwIfAborted()
  checks.push(daemon)
  const driver = createDockerDriver(runtime)
  const site = { host, runtime, driver, timeoutMs, question, end }
  const asked = spec?.plan && askedOf(host, question, spec.plan)
  if (asked && 'name' in asked) checks.push(asked)
  const request = asked && 'request' in asked ? asked.request : undefined
  const isUp = daemon.status === 'pass'
  const image = request && isUp ? await checkImage(site, request) : undefined
  end.throwIfAborted()
  checks.push(...(image?.checks ?? []))
  if (spec?.plan && request) checks.push(checkSafety(host, spec.plan, request, image))
  if (isUp) checks.push(...(await checkDoorsOf(site, request, image?.found)))
  end.throwIfAborted()
  return checks
}

/** What a run without a sandbox stumbles over. */
function checkBare(host: SandboxHost, { options }: DoctorQuestion, { workflow }: RunPlan): Check[] {
  try {
    bareSite(host, workflow, options.workspace)
    return []
  } catch (error) {
    return [failedWith('secrets', error)]
  }
}

/** What can be told of a run on another machine. */
function judgeElsewhere(host: SandboxHost, question: DoctorQuestion, plan: RunPlan): Check[] {
  const asked = askedOf(host, question, plan)
  if (asked === undefined) return []
  return 'name' in asked ? [asked] : [checkSafety(host, plan, asked.request, undefined)]
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
  { options, target }: DoctorQuestion,
  source: RunSource,
): Promise<{ readonly checks: readonly Check[]; readonly plan: RunPlan | undefined }> {
  let plan: RunPlan
  try {
    const { control: _, ...asked } = options
    const assumed = target === 'local' ? ({ assumedRuntime: 'docker' } as const) : {}
    plan = await readPlan(host, source, { ...asked, ...assumed })
  } catch (error) {
    return { checks: [failedWith('spec', error)], plan: undefined }
  }
  const { decision, workflow, dropped } = plan
  const checks: Check[] = []
  if (decision.kind === 'refused') {
    const isDriver = decision.failureCode === 'SANDBOX_DRIVER_UNAVAILABLE'
    const remedy = isDriver ? 'install docker or podman' : 'correct what is named'
    checks.push(fail('spec', decision.message, remedy))
  } else {
    checks.push(pass('spec', `${workflow.file}: ${specText(plan)}`))
  }
  if ('warning' in decision && decision.warning !== undefined) {
    const remedy =
      decision.reason === 'no-runtime'
        ? 'install docker or podman'
        : 'say auto, or leave the word away'
    checks.push(warn('sandbox', decision.warning, remedy))
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
  if (decision.kind === 'sealed') return `no container, a process seal, network ${network.kind}`
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
): { readonly runtime?: ContainerRuntime; readonly check: Check } {
  try {
    const runtime = findRuntime(host)
    if (runtime) return { runtime, check: pass('runtime', `${runtime.name} at ${runtime.program}`) }
    const detail = 'no docker and no podman is on PATH'
    return {
      check: (target === 'auto' ? fail : warn)('runtime', detail, 'install docker or podman'),
    }
  } catch (error) {
    return { check: failedWith('runtime', error) }
  }
}

async function checkDaemon(
  runtime: ContainerRuntime,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<Check> {
  const remedy = 'start the engine, and see that this user may talk to it'
  // podman has no server of its own; its command line is the engine.
  const format = runtime.name === 'docker' ? '{{.Server.Version}}' : '{{.Client.Version}}'
  try {
    const args = ['version', '--format', format]
    const { code, stdout, stderr, stopped } = await runtimeCommand(runtime, args, {
      timeoutMs,
      signal,
    })
    if (code === 0) return pass('daemon', `${runtime.name} ${stdout.trim()}`)
    const why = stopped
      ? `no answer in ${timeoutMs / 1000} s (${TIMEOUT_KNOB})`
      : stderr.trim().split('\n').at(-1)
    return fail('daemon', why ?? '', remedy)
  } catch (error) {
    return failedWith('daemon', error)
  }
}

/** What the run asks of its sandbox, or why it cannot. Undefined for a run without one. */
function askedOf(
  host: SandboxHost,
  question: DoctorQuestion,
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
  site: Site,
  request: SandboxRequest | undefined,
  found: ImageInfo | undefined,
): Promise<readonly Check[]> {
  const { host, runtime, driver, timeoutMs, question, end } = site
  const isWanted = request === undefined || request.hasPolicy
  const relay = sidecarImage(host, question.options)
  const signal = boundOf(site)
  // No program of a repository's image is started for a trial.
  const own = request?.repository === undefined ? found : undefined
  const lookAt = () => driver.inspectImage(relay, signal).catch(() => undefined)
  const image = question.isStrict && isWanted ? (own ?? (await lookAt())) : undefined
  const checks = await checkDoors({
    host,
    runtime,
    driver,
    sidecarImage: relay,
    image,
    policy: await request?.loadPolicy().catch(() => undefined),
    timeoutMs,
    end,
  })
  const { door } = question.options.flags
  if (!isWanted) return checks
  if (door === 'advisory') return [warn('door', ADVISORY, 'take --door auto'), ...checks]
  const works = checks.some(({ status }) => status === 'pass')
  return checks.map((check) => {
    const isMeant = door === 'auto' ? !works : check.name === `door ${door}`
    return check.status === 'warn' && isMeant ? { ...check, status: 'fail' as const } : check
  })
}
