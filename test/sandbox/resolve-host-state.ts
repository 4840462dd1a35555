import tap from 'tap'
import { type HostStateRequest, resolveHostState } from '../../src/sandbox/resolve-host-state.ts'
import type { HostState } from '../../src/sandbox/spec.ts'
import { blockOf } from '../support/sandbox-block.ts'

type Row = [flag: HostState | undefined, env: string | undefined, block: HostState | undefined]

function resolve([flag, env, hostState]: Row, guard?: HostStateRequest['guard']) {
  const workflow = hostState === undefined ? undefined : blockOf({ hostState })
  return resolveHostState({ flag, env, guard }, { workflow, workflowFile: 'w.yaml' })
}

const GUARD = 'ITERION_SANDBOX_HOST_STATE_GUARD=none'
const TABLE: [row: Row, state: HostState, shadowed?: string[]][] = [
  [[undefined, undefined, undefined], 'none'],
  [[undefined, undefined, 'none'], 'none'],
  [[undefined, undefined, 'auto'], 'auto', ['host_state: auto of w.yaml']],
  [[undefined, 'none', 'auto'], 'none'],
  [[undefined, 'auto', 'none'], 'auto', ['ITERION_SANDBOX_HOST_STATE=auto']],
  [['none', 'auto', 'auto'], 'none'],
  [['auto', 'none', 'none'], 'auto', ['--sandbox-host-state auto']],
  [
    ['auto', 'auto', 'auto'],
    'auto',
    ['--sandbox-host-state auto', 'ITERION_SANDBOX_HOST_STATE=auto', 'host_state: auto of w.yaml'],
  ],
]

void tap.test('flag, variable, workflow; without any of them nothing is bound', async (t) => {
  for (const [row, hostState] of TABLE) {
    t.strictSame(resolve(row), { hostState, guard: undefined }, JSON.stringify(row))
  }
})

void tap.test('the guard keeps it out and says whom it overruled', async (t) => {
  for (const [row, , shadowed] of TABLE) {
    const guard = shadowed && { floor: GUARD, shadowed }
    t.strictSame(resolve(row, 'none'), { hostState: 'none', guard }, JSON.stringify(row))
  }
})

void tap.test('an unknown value is no value', async (t) => {
  for (const value of ['', 'on', 'NONE']) {
    t.throws(() => resolve([undefined, value, undefined]), {
      code: 'OPTION_INVALID',
      message: `ITERION_SANDBOX_HOST_STATE=${JSON.stringify(value)}: expected auto or none`,
    })
  }
  for (const value of ['', 'auto', 'off']) {
    t.throws(() => resolve([undefined, undefined, undefined], value), {
      code: 'OPTION_INVALID',
      message: `ITERION_SANDBOX_HOST_STATE_GUARD=${JSON.stringify(value)}: expected none`,
    })
  }
})
