import tap from 'tap'
import { ownerOf, RUN_LABEL, runLabels } from '../../src/sandbox/labels.ts'

const OWNER = { bootId: 'b', pidNamespace: 'pid:[4]', pid: 77, startTime: '12345' }

void tap.test('labels name their owner', async (t) => {
  const labels = runLabels('20260101T000000-00000000', OWNER)
  t.equal(labels[RUN_LABEL], '20260101T000000-00000000')
  t.strictSame(ownerOf(labels), OWNER)
})

void tap.test('labels that are not whole name nobody', async (t) => {
  const labels = runLabels('x', OWNER)
  for (const name of Object.keys(labels)) {
    if (name === RUN_LABEL) continue
    t.equal(ownerOf({ ...labels, [name]: '' }), undefined, name)
    const { [name]: _, ...rest } = labels
    t.equal(ownerOf(rest), undefined, name)
  }
  const pid = Object.keys(labels).find((name) => name.endsWith('.pid')) ?? ''
  for (const text of ['-1', '1 2', '1e3', '12345678901']) {
    t.equal(ownerOf({ ...labels, [pid]: text }), undefined, text)
  }
})
