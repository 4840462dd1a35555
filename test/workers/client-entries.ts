import tap from 'tap'
import { ClientEntries } from '../../src/workers/client-entries.ts'

function open(patienceMs?: number) {
  const said: string[] = []
  const entries = new ClientEntries(
    {
      enter: (id, client) => said.push(`${id} ${client}`),
      leave: (client) => said.push(`left ${client}`),
    },
    patienceMs,
  )
  return { entries, said }
}

void tap.test('each tunnel is asked for, and has its own answer', async (t) => {
  const { entries, said } = open()
  const [one, two] = [entries.enter('a'), entries.enter('b')]
  entries.answer(2, 7)
  entries.answer(1, undefined)
  t.equal(await one, 'entered')
  t.strictSame(await two, { own: 7 })
  entries.leave('a')
  t.strictSame(said, ['1 a', '2 b', 'left a'])
})

void tap.test('no answer is told as such, and one that comes late is taken back', async (t) => {
  const { entries, said } = open(20)
  t.equal(await entries.enter('a'), 'silence')
  t.equal(await entries.enter('a'), 'silence')
  entries.answer(1, undefined)
  entries.answer(2, 3)
  entries.answer(2, undefined)
  t.strictSame(said, ['1 a', '2 a', 'left a'])
})
