import tap from 'tap'
import {
  assertSandboxable,
  type Backend,
  BACKENDS,
  nodeProgram,
  screenFallbacks,
  takesTask,
  usesClaw,
} from '../../src/sandbox/backend.ts'
import type { NodeSpec } from '../../src/sandbox/spec.ts'

const SITE = { iterion: '/usr/local/bin/iterion', workdir: '/work' }
const TASK = 'Say "$HOME" \\ and\nno more'

function node(backend: Backend, fallback: Backend[] = [], id = 'n'): NodeSpec {
  return { id, backend, command: TASK, fallback }
}

void tap.test(
  'a text is one argument, or one record, and nothing of it is read on the way',
  async (t) => {
    const words: Record<Backend, readonly string[]> = {
      tool: ['/bin/sh', '-c', TASK],
      claude_code: ['claude', '-p', TASK],
      pi: ['pi', '-p', TASK],
      kimi: ['kimi', '-p', TASK],
      grok: ['grok', '-p', TASK],
      codex: ['codex', 'exec', TASK],
      claw: ['/usr/local/bin/iterion', '__claw-runner'],
    }
    for (const backend of BACKENDS) {
      const program = nodeProgram(node(backend), SITE)
      t.strictSame(program.words, words[backend], backend)
      if (backend === 'claw') continue
      t.equal(program.input, undefined, `${backend} reads what the caller gives it`)
    }
    const { input = '' } = nodeProgram(node('claw'), SITE)
    t.match(input, /^[^\n]+\n$/, 'one line')
    t.strictSame(JSON.parse(input), {
      type: 'task',
      data: { node_id: 'n', user_prompt: TASK, work_dir: '/work' },
    })
  },
)

void tap.test('a list is the words, whatever the backend', async (t) => {
  for (const backend of BACKENDS) {
    const command = ['claude', '--model', 'x', '-p', '-y']
    t.strictSame(nodeProgram({ id: 'n', backend, command }, SITE), { words: command }, backend)
  }
})

void tap.test(
  'a sandboxed run has no fallback codex, and one without a sandbox keeps it',
  async (t) => {
    const nodes = [
      node('claude_code', ['codex', 'pi'], 'a'),
      node('kimi', ['codex'], 'b'),
      node('pi'),
    ]
    const { nodes: screened, dropped } = screenFallbacks(nodes, true)
    t.strictSame(
      screened.map(({ fallback }) => fallback),
      [['pi'], [], []],
    )
    t.strictSame(
      dropped.map(({ node: id, backend }) => `${id} ${backend}`),
      ['a codex', 'b codex'],
    )
    t.strictSame(screenFallbacks(nodes, false), { nodes, dropped: [] })
  },
)

void tap.test('codex is refused in a sandbox, and no other backend is', async (t) => {
  for (const backend of BACKENDS) {
    const check = () => assertSandboxable([node('tool'), node(backend)])
    if (backend === 'codex')
      t.throws(check, { code: 'BACKEND_UNSUPPORTED', message: /node n .*--sandbox none/ })
    else t.doesNotThrow(check, backend)
  }
})

void tap.test('claw is used by a node, or by its fallback', async (t) => {
  t.ok(usesClaw([node('tool'), node('claw')]))
  t.ok(usesClaw([node('pi', ['claw'])]))
  t.notOk(usesClaw([node('pi', ['kimi'])]))
  t.strictSame(
    BACKENDS.filter((backend) => !takesTask(backend)),
    ['tool'],
  )
})
