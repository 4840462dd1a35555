import tap from 'tap'
import { buildProjectImage } from '../support/docker.ts'
import { NO_CLIENTS } from '../support/unaware/client-image.ts'
import { RULES, startFarSide } from '../support/unaware/far-side.ts'
import { DOORS, openDoorDesk, openInside } from '../support/unaware/inside.ts'
import { unawareProgramsIn } from '../support/unaware/programs.ts'
import { holdBlocks, holdRow, unawareRows } from '../support/unaware/record.ts'

// Programs that are told of no proxy, behind both doors. What they show is in docs/clients.md.

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
        await part.test(program.name, (sub) =>
          holdRow(sub, rows, { program, inside, behind: door, far }),
        )
      }
      holdBlocks(part, desk.eventsOf('network_blocked'))
    })
  }
})
