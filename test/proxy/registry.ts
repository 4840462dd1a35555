import tap from 'tap'
import { Registry } from '../../src/proxy/registry.ts'

void tap.test(
  'what is in it is what was put in and not taken out, in whatever order',
  async (t) => {
    const registry = new Registry<{ place: number; readonly id: number }>()
    const members = Array.from({ length: 50 }, (_, id) => ({ place: -1, id }))
    for (const member of members) registry.add(member)
    for (const member of members) registry.add(member)
    t.equal(registry.size, 50, 'once is enough')
    for (const member of members) if (member.id % 3 === 0) t.ok(registry.delete(member))
    const left = members.filter(({ id }) => id % 3 !== 0)
    const ids = registry.all().map(({ id }) => id)
    t.strictSame(new Set(ids), new Set(left.map(({ id }) => id)))
    t.equal(registry.size, left.length)
    for (const member of members) if (member.id % 3 === 0) t.notOk(registry.delete(member), 'twice')
    for (const member of registry.all()) registry.delete(member)
    t.equal(registry.size, 0)
    t.ok(members.every(({ place }) => place === -1))
  },
)
