import tap from 'tap'
import { buildProjectImage } from '../support/docker.ts'
import { NO_CLIENTS } from '../support/unaware/client-image.ts'
import { RULES, startFarSide } from '../support/unaware/far-side.ts'
import { DOORS, openDoorDesk, openInside } from '../support/unaware/inside.ts'
import { unawareProgramsIn } from '../support/unaware/programs.ts'
import { holdRefusal, holdServed, unawareRows } from '../support/unaware/record.ts'
import { REFUSALS } from '../support/unaware/unaware-program.ts'

// Programs that are told of no proxy, behind both doors. What they show is in docs/clients.md.

const OWN_NAMES = /^(?:evil\.denied|web\.allowed)\.test:/

await tap.test('programs that know of no proxy', { skip: NO_CLIENTS }, async (t) => {
  await buildProjectImage()
  const far = await startFarSide(t)
  const rows = unawareRows()
  for (const door of DOORS) {
    await t.test(`behind the ${door} door`, async (part) => {
      const desk = openDoorDesk(part, door)
      const programs = unawareProgramsIn(desk.workspace, far)
      part.strictSame(
        programs.map(({ name }) => name),
        rows.map(({ name }) => name),
        'docs/clients.md has every program',
      )
      const policy = `rules: [${RULES}]\n`
      const inside = await openInside(part, door, desk, { policy, resolve: far.resolve })
      part.match(desk.eventsOf('sandbox_network_sealed'), [{ door }])
      const { stdout } = await inside.run({ words: ['env'] })
      part.notMatch(stdout, /proxy/i, 'nothing tells of a proxy')
      for (const program of programs) {
        await part.test(program.name, async (sub) => {
          const { name, version, ask } = program
          const row = rows.find((one) => one.name === name)
          sub.ok(row?.doors.includes(door), 'docs/clients.md says that it works')
          const told = await inside.run({ words: version.words })
          const installed = version.pattern.exec(told.output)?.[1] ?? 'unknown'
          await holdServed(sub, program, inside)
          for (const refusal of REFUSALS) {
            const before = far.connections()
            const words = ask(refusal.host, refusal.port(program), refusal.column)
            const refused = await inside.run(words)
            holdRefusal(sub, row, installed, refusal.column, refused)
            sub.equal(far.connections(), before, 'the servers saw nothing')
          }
        })
      }
      const blocked = new Set(
        desk
          .eventsOf('network_blocked')
          .map(({ host, port, via, reason }) => `${host}:${port} ${via} ${reason}`)
          .filter((line) => OWN_NAMES.test(line)),
      )
      part.strictSame(
        [...blocked].toSorted(),
        [
          'evil.denied.test:0 transparent no-rule',
          'web.allowed.test:22 transparent port',
          'web.allowed.test:5432 transparent port',
          'web.allowed.test:8443 transparent port',
        ],
        'the events have every refusal',
      )
    })
  }
})
