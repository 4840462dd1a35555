import { escapeControls } from '../errors.ts'
import { planRun } from '../sandbox/plan-run.ts'
import { formatGoDuration } from '../sandbox/duration.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'
import { tellFailure } from './forecast-failure.ts'
import type { Io } from './io.ts'
import { type PlanDocument, planDocument } from './plan-document.ts'
import { renderError, renderJson, renderTable } from './render.ts'
import { readRunRequest, type RunRequestOptions } from './run-request.ts'

/** `plan`: what `run` would do with the same words, without doing it. */
export async function runPlan(
  io: Io,
  file: string | undefined,
  command: readonly string[] | undefined,
  options: RunRequestOptions,
): Promise<ExitCode> {
  try {
    const request = await readRunRequest(io, file, command, options)
    const run = await planRun(request.host, request.source, request.options)
    const document = planDocument(run, await run.plan.loadPolicy())
    io.stdout(options.json === true ? renderJson(document) : renderPlan(document))
    if (run.refusal && options.json !== true) io.stderr(renderError(run.refusal))
    return run.refusal ? EXIT.no : EXIT.yes
  } catch (error) {
    return tellFailure(io, error, options.json === true)
  }
}

function renderPlan(plan: PlanDocument): string {
  const { sandbox, network, nodes } = plan
  const by = plan.decided_by === null ? 'nobody asked for one' : `said by: ${plan.decided_by}`
  const rows: [string, string][] = [
    ['workflow', plan.workflow],
    ['sandbox', `${sandboxText(plan)} (${by})`],
    ...(plan.overruled.length > 0
      ? [['overruled', plan.overruled.join(', ')] as [string, string]]
      : []),
    ...plan.shadowed.map(({ floor, shadowed }): [string, string] => [
      'floor',
      `${floor}${shadowed.length > 0 ? `, over ${shadowed.join(', ')}` : ''}`,
    ]),
    ...plan.notes.map((note): [string, string] => ['note', note]),
    ...(plan.warning === null ? [] : ([['warning', plan.warning]] as [string, string][])),
    ...(plan.file_secrets_dropped
      ? [['secrets', 'those as: file are not made'] as [string, string]]
      : []),
    ...(plan.resolve.length > 0 ? [['resolve', plan.resolve.join(', ')] as [string, string]] : []),
    ...(plan.refusal ? [] : [['network', networkText(network)] as [string, string]]),
    ...transparentRows(plan.transparent),
  ]
  const head = renderTable(rows.map(([key, value]) => [key, escapeControls(value)]))
  const tail = section(
    'nodes',
    nodes.map(({ id, backend, fallback, command, input }) => [
      id,
      fallback.length > 0 ? `${backend}, then ${fallback.join(', ')}` : backend,
      shellWords(command),
      input === null ? '' : `reads ${input.trimEnd()}`,
    ]),
  )
  const dropped = plan.dropped_fallbacks.map(
    ({ node, backend, reason }) => `node ${node}: no fallback ${backend}: ${reason}\n`,
  )
  // What is refused starts none of it.
  if (plan.refusal) return head
  return head + (sandbox ? renderSandbox(sandbox) : '') + tail + dropped.join('')
}

function sandboxText({ refusal, sandboxed, seal, mode }: PlanDocument): string {
  if (refusal) return 'refused'
  if (seal !== null) return `no container; each node in a ${seal} seal`
  return sandboxed ? `yes, mode ${mode}` : 'no'
}

function networkText(network: PlanDocument['network']): string {
  if (network.kind === 'open') return 'open: no proxy'
  if (network.kind === 'host') {
    return `that of this machine${network.policy_dropped ? '; the policy does not hold' : ''}`
  }
  const { mode, rules, digest, defaulted } = network
  const why = defaulted ? `, since ${defaulted.source} chose the sandbox: ${defaulted.preset}` : ''
  return `${mode}, ${rules} rules, ${digest}${why}`
}

/** What is reached by programs that know of no proxy, and what is not. */
function transparentRows(transparent: PlanDocument['transparent']): [string, string][] {
  if (transparent === null) return []
  const { ports, addresses, only_by_proxy: rest, taken } = transparent
  const listed = (all: readonly string[]) =>
    all.length > 5 ? [...all.slice(0, 5), `${all.length - 5} more`] : all
  const served = [`ports ${ports.join(', ') || 'none'}`, ...listed(addresses)]
  const left = [...(rest.ports === '' ? [] : [`ports ${rest.ports}`]), ...listed(rest.addresses)]
  return [
    ['unaware', served.join('; ')],
    ...(left.length > 0 ? [['by proxy', left.join('; ')] as [string, string]] : []),
    ...(taken && taken.ports.length > 0
      ? [['taken', `ports ${taken.ports.join(', ')}: ${taken.why}`] as [string, string]]
      : []),
  ]
}

function renderSandbox(sandbox: NonNullable<PlanDocument['sandbox']>): string {
  const { image, user, image_user: from } = sandbox
  const here = image.is_here ? (image.id ?? '') : missing(image)
  const facts: [string, string][] = [
    ['image', `${image.name} (${NAMED_BY[image.from]}): ${here}`],
    [
      'user',
      `${user || "the image's"}${from === null ? '' : `, for ${from || 'root'} of the image`}`,
    ],
    ['workdir', sandbox.workdir],
    ['host state', sandbox.host_state],
    ['door', sandbox.door],
    ['limits', `${sandbox.memory_bytes || 'no'} bytes, ${sandbox.pids || 'no'} processes`],
    ...sandbox.notes.map((note): [string, string] => ['note', note]),
    ...sandbox.warnings.map((note): [string, string] => ['warning', note]),
  ]
  const parts = [
    renderTable(facts.map(([key, value]) => [key, escapeControls(value)])),
    section(
      'mounts',
      sandbox.mounts.map(({ source, target, read_only: isReadOnly }) => [
        isReadOnly ? 'ro' : 'rw',
        target,
        source === target ? '' : source,
      ]),
    ),
    section(
      'in memory',
      sandbox.tmpfs.map(({ target, bytes }) => [target, `${bytes / 1024 ** 2} MiB`]),
    ),
    section(
      'volumes',
      sandbox.volumes.map((one) => [one]),
    ),
    section(
      'environment',
      sandbox.environment.map(({ name, value, from: who }) => [
        who,
        `${name}=${value ?? '(hidden)'}`,
      ]),
    ),
    section(
      'taken out of the environment',
      sandbox.denied.map(({ source, names }) => [source, names.join(', ')]),
    ),
    section(
      'phases',
      sandbox.phases.map(({ name, bound_ms: ms, knob }) => [name, formatGoDuration(ms), knob]),
    ),
    section(
      'post_create',
      sandbox.post_create.map(({ command, user: who }) => [
        who,
        typeof command === 'string' ? command : shellWords(command),
      ]),
    ),
    `engine\n  ${escapeControls(shellWords(sandbox.argv))}\n`,
  ]
  return parts.join('')
}

/** Who named an image. */
const NAMED_BY = {
  block: 'the workflow',
  repository: 'the repository',
  flag: '--sandbox-default-image',
  env: 'ITERION_SANDBOX_DEFAULT_IMAGE',
  default: 'built in',
} as const

function missing({ build }: NonNullable<PlanDocument['sandbox']>['image']): string {
  const what = build ? `would be built from ${build.dockerfile}` : 'would be pulled'
  return `not here, ${what}; its user, variables and volumes are not known`
}

function section(title: string, rows: readonly (readonly string[])[]): string {
  if (rows.length === 0) return ''
  const shown = rows.map((row) => row.map(escapeControls))
  const lines = renderTable(shown).split('\n').slice(0, -1)
  return `${title}\n${lines.map((line) => `  ${line}\n`).join('')}`
}

/** Words as a shell reads them; placeholders too. */
function shellWords(words: readonly string[]): string {
  return words
    .map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`))
    .join(' ')
}
