import tap from 'tap'
import { resolveSpec, type SpecDecision, type SpecRequest } from '../../src/sandbox/resolve-spec.ts'
import { MODES, type SandboxMode } from '../../src/sandbox/spec.ts'
import { blockOf } from '../support/sandbox-block.ts'

const SILENT: SpecRequest = {
  workflow: undefined,
  workflowFile: 'w.yaml',
  builtIn: undefined,
  runtime: 'docker',
  whyNoSeal: undefined,
  hasPolicy: false,
  defaultImage: { version: '1.2.3' },
  hostState: {},
  hasFileSecrets: false,
}

/** A decision in a few letters: see {@link EXPECTED}. */
function inShort(decision: SpecDecision): string {
  if (decision.kind === 'bare') return decision.code ?? decision.reason
  if (decision.kind === 'sealed') return 'sealed'
  if (decision.kind === 'refused') return `refused ${decision.failureCode}`
  const { mode, container, floor } = decision
  const image = container.from === 'block' ? 'own' : container.from
  return `${mode} ${image}${floor === undefined ? '' : ' raised'}`
}

const DRIVER = 'refused SANDBOX_DRIVER_UNAVAILABLE'
const OPTION = 'refused OPTION_INVALID'

/**
 * What a run becomes, written down by hand: what was asked for (`+` in a workflow that names its own container), the
 * floor, and the cells: with a runtime; without one and an open network; without one and a policy, where processes can be
 * sealed. Where they cannot, what is `sealed` here is refused.
 */
const EXPECTED: readonly [
  asked: string,
  floor: string,
  cells: readonly [string, string, string],
][] = [
  ['none', 'none', ['C128', 'C128', 'C128']],
  ['none', 'auto', ['auto default raised', DRIVER, DRIVER]],
  ['none', 'inline', ['inline default raised', DRIVER, DRIVER]],
  ['none+', 'none', ['C128', 'C128', 'C128']],
  ['none+', 'auto', ['inline own raised', DRIVER, DRIVER]],
  ['none+', 'inline', ['inline own raised', DRIVER, DRIVER]],
  ['auto', 'none', ['auto default', 'no-runtime', 'sealed']],
  ['auto', 'auto', ['auto default', DRIVER, DRIVER]],
  ['auto', 'inline', ['inline default raised', DRIVER, DRIVER]],
  ['auto+', 'none', ['inline own', DRIVER, DRIVER]],
  ['auto+', 'auto', ['inline own', DRIVER, DRIVER]],
  ['auto+', 'inline', ['inline own', DRIVER, DRIVER]],
  ['inline', 'none', [OPTION, OPTION, OPTION]],
  ['inline', 'auto', [OPTION, OPTION, OPTION]],
  ['inline', 'inline', [OPTION, OPTION, OPTION]],
  ['inline+', 'none', ['inline own', DRIVER, DRIVER]],
  ['inline+', 'auto', ['inline own', DRIVER, DRIVER]],
  ['inline+', 'inline', ['inline own', DRIVER, DRIVER]],
]

/** A request in which `mode` is said by one tier, silence is above it, and `other` is said by all below it. */
const TIERS: Readonly<
  Record<string, (mode: SandboxMode, other: SandboxMode, own: boolean) => Partial<SpecRequest>>
> = {
  cli: (mode, other, own) => ({
    cli: mode,
    override: other,
    workflow: blockOf({ mode: other, ...(own && { image: 'own:1' }) }),
    default: other,
    builtIn: 'auto',
  }),
  override: (mode, other, own) => ({
    override: mode,
    workflow: blockOf({ mode: other, ...(own && { image: 'own:1' }) }),
    default: other,
    builtIn: 'auto',
  }),
  workflow: (mode, other, own) => ({
    workflow: blockOf({ mode, ...(own && { image: 'own:1' }) }),
    default: other,
    builtIn: 'auto',
  }),
  default: (mode) => ({ workflow: blockOf(), default: mode, builtIn: 'auto' }),
  'built-in': () => ({ builtIn: 'auto' }),
}

function canSay(tier: string, mode: SandboxMode, own: boolean): boolean {
  if (tier === 'built-in') return mode === 'auto' && !own
  // A block that names its container speaks itself, so nothing weaker is asked.
  return tier !== 'default' || !own
}

for (const [tier, requestOf] of Object.entries(TIERS)) {
  void tap.test(`every cell of the tier ${tier}`, async (t) => {
    let cells = 0
    for (const [asked, floor, expected] of EXPECTED) {
      const own = asked.endsWith('+')
      const mode = asked.replace('+', '') as SandboxMode
      if (!canSay(tier, mode, own)) continue
      const runs: Partial<SpecRequest>[] = [
        { runtime: 'docker', hasPolicy: false },
        { runtime: 'podman', hasPolicy: true },
        { runtime: undefined, hasPolicy: false },
        { runtime: undefined, hasPolicy: true },
        { runtime: undefined, hasPolicy: true, whyNoSeal: 'it is off' },
      ]
      const [here, open, policy] = expected
      for (const other of MODES.filter((one) => one !== mode)) {
        for (const floorText of floor === 'none' ? [undefined, 'none'] : [floor]) {
          for (const [i, run] of runs.entries()) {
            const decision = resolveSpec({
              ...SILENT,
              ...requestOf(mode, other, own),
              floor: floorText,
              ...run,
            })
            const name = `${asked}, below ${other}, floor ${floorText}, ${JSON.stringify(run)}`
            // A policy speaks for the workflow that has it: nobody weaker is asked.
            const isImplied = run.hasPolicy === true && (tier === 'default' || tier === 'built-in')
            const row = isImplied
              ? EXPECTED.find(([a, f]) => a === 'auto' && f === floor)
              : undefined
            const [ownHere, ownOpen, ownPolicy] = row?.[2] ?? [here, open, policy]
            const unsealed = ownPolicy === 'sealed' ? DRIVER : ownPolicy
            const cell = [ownHere, ownHere, ownOpen, ownPolicy, unsealed][i]
            t.equal(inShort(decision), cell, name)
            t.equal(decision.decidedBy, isImplied ? 'workflow' : tier, name)
            cells++
          }
        }
      }
    }
    t.ok(cells >= 32, `${cells} cells`)
  })
}

void tap.test('a library caller that names nothing gets no sandbox', async (t) => {
  const cells: [Partial<SpecRequest>, string][] = [
    [{}, 'not-asked-for'],
    [{ runtime: undefined }, 'not-asked-for'],
    [{ workflow: blockOf({ network: 'open' }) }, 'not-asked-for'],
    [{ floor: 'none' }, 'not-asked-for'],
    [{ floor: 'auto' }, 'auto default raised'],
    [{ floor: 'inline' }, 'inline default raised'],
    [{ floor: 'auto', runtime: undefined }, DRIVER],
    [{ hasPolicy: true }, 'auto default'],
    [{ hasPolicy: true, runtime: undefined }, 'sealed'],
    [{ hasPolicy: true, runtime: undefined, whyNoSeal: 'it is off' }, DRIVER],
    [{ hasPolicy: true, runtime: undefined, floor: 'auto' }, DRIVER],
    [{ hasPolicy: true, default: 'none' }, 'auto default'],
    [{ hasPolicy: true, cli: 'none' }, 'C128'],
  ]
  for (const [given, expected] of cells) {
    t.equal(inShort(resolveSpec({ ...SILENT, ...given })), expected, JSON.stringify(given))
  }
  t.strictSame(resolveSpec(SILENT), {
    kind: 'bare',
    reason: 'not-asked-for',
    fileSecretsDropped: false,
    decidedBy: undefined,
    overruled: [],
    notes: [],
  })
  t.match(resolveSpec({ ...SILENT, floor: 'auto' }), {
    floor: { floor: 'ITERION_SANDBOX_FLOOR=auto', shadowed: [] },
  })
})

void tap.test('an image without a mode is inline, and a build too', async (t) => {
  const build = { dockerfile: 'Dockerfile', context: '.', args: {} }
  t.match(resolveSpec({ ...SILENT, workflow: blockOf({ image: 'own:1' }), default: 'none' }), {
    kind: 'sandboxed',
    mode: 'inline',
    container: { from: 'block', image: 'own:1' },
    decidedBy: 'workflow',
  })
  t.match(resolveSpec({ ...SILENT, workflow: blockOf({ build }) }), {
    mode: 'inline',
    container: { from: 'block', build },
  })
})

void tap.test('a flag wins over the variable of its tier, and a note says so', async (t) => {
  const decide = (override: string) => resolveSpec({ ...SILENT, cli: 'none', override })
  t.strictSame(decide('auto').notes, ['--sandbox none wins over ITERION_SANDBOX_OVERRIDE=auto'])
  t.strictSame(decide('none').notes, [])
  t.strictSame(resolveSpec({ ...SILENT, cli: 'none', default: 'auto' }).notes, [])
})

void tap.test('a floor lists all that asked for less', async (t) => {
  const decide = (given: Partial<SpecRequest>) => {
    const decision = resolveSpec({ ...SILENT, floor: 'inline', ...given })
    return decision.kind === 'sandboxed' ? decision.floor : decision
  }
  t.strictSame(
    decide({
      cli: 'none',
      override: 'auto',
      workflow: blockOf({ mode: 'none' }),
      default: 'auto',
      builtIn: 'auto',
    }),
    {
      floor: 'ITERION_SANDBOX_FLOOR=inline',
      shadowed: [
        '--sandbox none',
        'ITERION_SANDBOX_OVERRIDE=auto',
        'sandbox: none of w.yaml',
        'ITERION_SANDBOX_DEFAULT=auto',
        'auto, the built-in default',
      ],
    },
  )
  t.strictSame(decide({ cli: 'none', workflow: blockOf({ image: 'own:1' }), default: 'auto' }), {
    floor: 'ITERION_SANDBOX_FLOOR=inline',
    shadowed: ['--sandbox none'],
  })
  t.equal(decide({ cli: 'inline', workflow: blockOf({ mode: 'none', image: 'own:1' }) }), undefined)
})

void tap.test('none names the risk, the policy that does not hold and the secrets', async (t) => {
  const decision = resolveSpec({ ...SILENT, cli: 'none', hasPolicy: true, hasFileSecrets: true })
  t.match(decision, { kind: 'bare', code: 'C128', fileSecretsDropped: true })
  const { warning } = decision as { warning?: string }
  t.match(warning, /^--sandbox none: .*without a sandbox.*all rights of the caller/)
  t.match(warning, /; the policy of w\.yaml does not hold$/)
  const open = resolveSpec({ ...SILENT, cli: 'none' })
  t.notMatch((open as { warning?: string }).warning, /policy/)
})

void tap.test(
  'without a runtime an open run says so, and a policy is not thrown away',
  async (t) => {
    const without: SpecRequest = {
      ...SILENT,
      cli: 'auto',
      runtime: undefined,
      hasFileSecrets: true,
    }
    t.match(resolveSpec(without), {
      kind: 'bare',
      reason: 'no-runtime',
      code: undefined,
      warning: /^no container runtime .* all rights/,
      fileSecretsDropped: true,
    })
    t.match(resolveSpec({ ...without, hasPolicy: true }), {
      kind: 'sealed',
      reason: 'no-runtime',
      warning: /^no container runtime .* held by a process seal to the policy of w\.yaml$/,
      fileSecretsDropped: true,
    })
    t.match(resolveSpec({ ...without, hasPolicy: true, whyNoSeal: 'it is off' }), {
      kind: 'refused',
      message: /the policy of w\.yaml cannot hold without one: it is off; --sandbox none runs it/,
    })
    t.match(resolveSpec({ ...without, workflow: blockOf({ image: 'own:1' }) }), {
      message: /names its own container; --sandbox none/,
    })
    t.match(resolveSpec({ ...without, floor: 'auto' }), {
      message: /ITERION_SANDBOX_FLOOR=auto lets nothing run without one$/,
    })
  },
)

void tap.test('inline without a container says what is missing, and where', async (t) => {
  t.match(resolveSpec({ ...SILENT, cli: 'inline' }), {
    kind: 'refused',
    failureCode: 'OPTION_INVALID',
    message: /^--sandbox inline needs .*: write image or build in sandbox: of w\.yaml$/,
  })
})

void tap.test(
  'a variable with an unknown value stops the run, also where it is not asked',
  async (t) => {
    const variables: [key: 'override' | 'default' | 'floor', name: string][] = [
      ['override', 'ITERION_SANDBOX_OVERRIDE'],
      ['default', 'ITERION_SANDBOX_DEFAULT'],
      ['floor', 'ITERION_SANDBOX_FLOOR'],
    ]
    for (const [key, name] of variables) {
      for (const value of ['', 'Auto', ' auto', 'off', 'sandboxed']) {
        t.throws(() => resolveSpec({ ...SILENT, cli: 'none', [key]: value }), {
          code: 'OPTION_INVALID',
          message: `${name}=${JSON.stringify(value)}: expected none or auto or inline`,
        })
      }
    }
    const hostState = { guard: 'auto' }
    t.throws(() => resolveSpec({ ...SILENT, hostState }), { code: 'OPTION_INVALID' })
    const defaultImage = { env: '-v/:/h', version: '1' }
    t.throws(() => resolveSpec({ ...SILENT, defaultImage }), { code: 'OPTION_INVALID' })
  },
)

void tap.test('the image of auto and the host state come with the decision', async (t) => {
  const hostState = { flag: 'auto' as const, guard: 'none' }
  t.match(
    resolveSpec({ ...SILENT, cli: 'auto', hostState, repository: { file: 'r', image: 'r:1' } }),
    {
      container: { from: 'repository', image: 'r:1' },
      hostState: 'none',
      guard: { shadowed: ['--sandbox-host-state auto'] },
    },
  )
  t.match(resolveSpec({ ...SILENT, cli: 'auto', hostState: { flag: 'auto' } }), {
    container: { image: 'ghcr.io/socialgouv/iterion-sandbox-slim:1.2.3' },
    hostState: 'auto',
    guard: undefined,
  })
})

void tap.test(
  'what was said in vain is told, but not what is said by nobody, or the same',
  async (t) => {
    const overruled = (more: Partial<SpecRequest>) =>
      resolveSpec({ ...SILENT, builtIn: 'auto', workflow: blockOf({ mode: 'auto' }), ...more })
        .overruled
    t.strictSame(overruled({}), [])
    t.strictSame(overruled({ default: 'none' }), ['ITERION_SANDBOX_DEFAULT=none'])
    t.strictSame(overruled({ cli: 'none', override: 'none' }), [
      `sandbox: auto of ${SILENT.workflowFile}`,
    ])
  },
)
