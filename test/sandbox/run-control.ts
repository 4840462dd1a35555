import tap from 'tap'
import type { NodeProcess } from '../../src/sandbox/node-process.ts'
import { RunControl } from '../../src/sandbox/run-control.ts'

function fakeNode() {
  const heard: string[] = []
  const node: NodeProcess = {
    done: new Promise(() => undefined),
    signal: (name) => heard.push(name),
    resize: () => heard.push('resize'),
    output: [],
  }
  return { node, heard }
}

void tap.test('the first signal is for the node, the second ends the run', async (t) => {
  const control = new RunControl()
  const { node, heard } = fakeNode()
  control.enter(node)
  control.receive('SIGWINCH')
  control.receive('SIGINT')
  t.strictSame(heard, ['resize', 'SIGINT'])
  t.notOk(control.signal.aborted)
  control.receive('SIGINT')
  t.ok(control.signal.aborted)
  t.match(control.signal.reason, { name: 'Cancelled', signal: 'SIGINT' })
})

void tap.test('without a node the first signal ends the run', async (t) => {
  const control = new RunControl()
  control.receive('SIGWINCH')
  t.notOk(control.signal.aborted)
  control.receive('SIGTERM')
  t.match(control.signal.reason, { signal: 'SIGTERM' })
})

void tap.test('a node that ended in its own way is the last one', async (t) => {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    const control = new RunControl()
    const { node } = fakeNode()
    control.enter(node)
    control.receive(signal)
    t.throws(() => control.enter(undefined), { name: 'Cancelled', signal })
  }
  const control = new RunControl()
  control.enter(fakeNode().node)
  control.enter(undefined)
  t.notOk(control.signal.aborted)
})

void tap.test('no timer outlives the run', async (t) => {
  const control = new RunControl()
  control.enter(fakeNode().node)
  control.receive('SIGHUP')
  const timers = () => process.getActiveResourcesInfo().filter((one) => one === 'Timeout').length
  const during = timers()
  control.receive('SIGTERM')
  t.equal(timers(), during - 1)
})
