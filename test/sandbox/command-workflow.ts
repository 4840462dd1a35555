import tap from 'tap'
import { commandWorkflow } from '../../src/sandbox/command-workflow.ts'
import { blockOf } from '../support/sandbox-block.ts'

void tap.test('a command line is a workflow of one node', async (t) => {
  t.strictSame(commandWorkflow({ image: 'a:1', command: ['curl', '-v'] }), {
    file: 'the command line',
    name: 'command',
    sandbox: blockOf({ mode: 'inline', image: 'a:1' }),
    attachments: [],
    secrets: [],
    nodes: [{ id: 'command', backend: 'tool', command: ['curl', '-v'], fallback: [] }],
    said: { image: 'a:1', command: ['curl', '-v'] },
  })
  t.equal(commandWorkflow({ command: ['true'] }).sandbox, undefined)
})

void tap.test('a command line that cannot be run is refused', async (t) => {
  const command = ['true']
  for (const parts of [
    { command: [] },
    { command: [''] },
    { image: '-v/:/h', command },
    { image: '', command },
  ]) {
    t.throws(() => commandWorkflow(parts), { code: 'OPTION_INVALID' }, JSON.stringify(parts))
  }
})
