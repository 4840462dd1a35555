import { chmodSync, chownSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { NO_ENGINE } from '../support/docker.ts'
import {
  attemptOf,
  attemptsOf,
  blockedIn,
  factsOf,
  namesOf,
  ordinaryUser,
  PROGRAM,
  writeInside,
} from '../support/escape/battery.ts'
import { DIRECT } from '../support/escape/direct-techniques.ts'
import { startHostSide, startWorld } from '../support/escape/far-side.ts'
import { assertBlocked, WELCOME, WELCOMES } from '../support/escape/sealed.ts'
import { TECHNIQUES, WELCOMED, WELCOMED_UNAWARE } from '../support/escape/techniques.ts'
import { openDesk } from '../support/sandbox-run.ts'
import { NO_WRAP } from '../support/wrap.ts'

// A program of this machine that `wrap` seals: its network alone. What a technique needs files or the kernel for is left out
// by its field `process`. The outside world is a container, on bridges that this machine reaches and the seal does not.

tap.setTimeout(240_000)

/** The programs of a caller's own folders are not for another user. */
const PATH = `/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin:${path.dirname(process.execPath)}`

void tap.test('nothing gets out past a process seal', { skip: NO_ENGINE || NO_WRAP }, async (t) => {
  const caller = ordinaryUser()
  const world = await startWorld(t)
  const desk = openDesk(t, caller)
  const host = await startHostSide(t, desk.folder, world)
  // Whatever keeps a user from the socket, it is not its mode.
  chmodSync(host.facts.UNIX_PATH, 0o777)
  const techniques = TECHNIQUES.filter(({ process: place }) => place === undefined)
  const facts = factsOf({ world, host, desk, neighbour: 'none', isSealed: true })
  writeInside(desk, { world, techniques }, facts, false)
  const [lookups, events] = ['lookups', 'events.jsonl'].map((name) => {
    const file = path.join(desk.folder, name)
    writeFileSync(file, '')
    chownSync(file, caller.uid, caller.gid)
    return file
  }) as [string, string]
  const heard = (await world.contacts()).length

  const words = ['--rule', 'allowed.test', '--rule', '**.inside.test:*', '--events', events]
  const resolve = ['--resolve', `allowed.test:${world.address}`]
  const command = [process.execPath, 'inside.mjs']
  const { code, stdout, stderr } = await desk.run(
    ['wrap', ...words, ...resolve, '--', ...command],
    {
      program: PROGRAM,
      env: {
        // The programs of a caller's own folders are not for another user.
        PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin',
        NAMES: JSON.stringify(namesOf(world)),
        LOOKUPS: lookups,
      },
    },
  )
  t.equal(code, 0, stderr)
  const all = attemptsOf(stdout)
  t.strictSame(
    [...WELCOMED, ...WELCOMED_UNAWARE].map(({ name }) => [name, attemptOf(all, name).text]),
    WELCOMES,
    'what is allowed is reached',
  )
  const attempts = techniques.map(({ name }) => attemptOf(all, name))
  t.ok(attempts.length > 100, `${attempts.length} techniques`)
  t.strictSame(
    attempts.filter(({ out }) => out),
    [],
    'none of them got anything',
  )
  t.strictSame(
    (await world.contacts()).slice(heard).filter((line) => !WELCOME.test(line)),
    [],
    'the outside world heard nobody who was not allowed',
  )
  t.strictSame(await host.contacts(), [], 'nothing on this machine heard anybody')
  t.ok(host.isAlive())
  const asked = readFileSync(lookups, 'utf8').split('\n').slice(0, -1)
  t.strictSame(
    asked.filter((name) => !name.endsWith('.inside.test')),
    [],
    'no denied name was looked up',
  )
  t.ok(asked.includes('loopback.inside.test'), 'names that are allowed were')
  assertBlocked(t, blockedIn(readFileSync(events, 'utf8')), world)
})

void tap.test(
  'without the seal the same caller gets out',
  { skip: NO_ENGINE || NO_WRAP },
  async (t) => {
    const caller = ordinaryUser()
    const world = await startWorld(t)
    const desk = openDesk(t, caller)
    const host = await startHostSide(t, desk.folder, world)
    // Those that go to hosts of the test alone. Who may ping is for the machine to say.
    const techniques = DIRECT.filter(
      ({ name, advisory }) => advisory === 'out' && !/ping/.test(name),
    )
    const facts = factsOf({ world, host, desk, neighbour: 'none', isSealed: false })
    writeInside(desk, { world, techniques }, facts, false)
    const { stdout } = await desk.run([], {
      program: 'inside.mjs',
      env: { PATH, http_proxy: 'http://127.0.0.1:9', https_proxy: 'http://127.0.0.1:9' },
    })
    const all = attemptsOf(stdout)
    t.ok(techniques.length > 20, `${techniques.length} techniques`)
    t.strictSame(
      techniques.map(({ name }) => attemptOf(all, name)).filter(({ out }) => !out),
      [],
    )
  },
)
