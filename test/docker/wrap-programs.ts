import { execFileSync, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import type { EventData } from '../../src/events/event.ts'
import { recordsOf } from '../support/event-records.ts'
import { NO_CLIENTS } from '../support/unaware/client-image.ts'
import { RULES, startFarSide } from '../support/unaware/far-side.ts'
import { followRunner, RUNNER_WORDS } from '../support/unaware/program-runner.ts'
import { unawareProgramsIn } from '../support/unaware/programs.ts'
import { holdBlocks, holdRow, unawareRows } from '../support/unaware/record.ts'
import { ordinaryUser } from '../support/users.ts'
import { NO_WRAP, openWrapDesk } from '../support/wrap.ts'

// This machine's own programs under `wrap`, told of no proxy. The containers are the servers that they are clients of.

const NOBODY = { uid: 65534, gid: 65534 }
const PATH = `${path.dirname(process.execPath)}:/usr/local/bin:/usr/bin:/bin`
const MISSING = ['psql', 'chromium'].filter((name) => spawnSync(name, ['--version']).error)
const NO_PROGRAMS = MISSING.length > 0 && `this machine has no ${MISSING.join(', no ')}`
/** What programs make, each in the workspace. */
const MADE = ['git-allowed', 'ssh-allowed', 'npm-allowed/node_modules', 'pip-allowed']

await tap.test(
  'programs that know of no proxy',
  { skip: NO_WRAP || NO_CLIENTS || NO_PROGRAMS },
  async (t) => {
    const far = await startFarSide(t)
    const rows = unawareRows()
    for (const caller of ['user', 'root'] as const) {
      await t.test(`of ${caller}`, async (part) => {
        const desk = openWrapDesk(part)
        const owner = caller === 'root' ? NOBODY : ordinaryUser()
        const programs = unawareProgramsIn(desk.folder, far)
        part.equal(programs.length, rows.length)
        execFileSync('chown', ['-R', `${owner.uid}:${owner.gid}`, desk.folder])
        const events = path.join(desk.folder, 'events.jsonl')
        const rules = RULES.split(', ').flatMap((rule) => ['--rule', rule.replaceAll('"', '')])
        const options = [...rules, ...far.resolve.flatMap((one) => ['--resolve', one])]
        const running = desk.start(
          caller,
          [...options, '--audit', '--events', events],
          RUNNER_WORDS,
          {
            env: { PATH },
            stdin: 'pipe',
          },
        )
        const inside = await followRunner(part, running)
        const { stdout } = await inside.run({ words: ['env'] })
        part.notMatch(stdout, /proxy/i, 'nothing tells of a proxy')
        for (const program of programs) {
          await part.test(program.name, (sub) =>
            holdRow(sub, rows, { program, inside, behind: 'wrap', far }),
          )
        }
        running.child.stdin?.end()
        const { code, stderr } = await running.done
        part.equal(code, 0)
        part.match(stderr, /^allowed +git\.allowed\.test +22 +1 +git\.allowed\.test:22$/m)
        part.match(stderr, /^denied +web\.allowed\.test +5432 +1 +port$/m)
        part.match(stderr, /^ {2}- "evil\.denied\.test"$/m)
        const records = recordsOf(part, readFileSync(events, 'utf8'))
        const blocked = records.filter(({ type }) => type === 'network_blocked')
        holdBlocks(
          part,
          blocked.map(({ data }) => data as unknown as EventData<'network_blocked'>),
        )
        for (const made of MADE) {
          const file = path.join(desk.folder, made)
          part.ok(readdirSync(file).length > 0, made)
          part.match(statSync(file), { uid: owner.uid, gid: owner.gid }, made)
        }
        const others = ['!', '-uid', String(owner.uid), '!', '-path', events]
        const found = execFileSync('find', [desk.folder, ...others], { encoding: 'utf8' })
        part.equal(found, '', 'all files are the caller’s')
      })
    }
  },
)
