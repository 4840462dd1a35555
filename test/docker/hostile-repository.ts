import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { openDesk } from '../support/sandbox-run.ts'
import { writeRepository } from './hostile-repo/attempt.ts'
import { HARMLESS, LURING_IMAGE } from './hostile-repo/harmless.ts'
import { REFUSED } from './hostile-repo/refused.ts'

// A repository that was made to attack asks for everything that it can ask for. Either the run is refused, and told where
// and why, or it gains nothing.

const ATTEMPTS = [...REFUSED, ...HARMLESS]
const SECRET = 'what-no-sandbox-sees'
/** Prints what a sandbox has, and whatever of the secret it can find. */
const LOOK = `echo up; env | sort; cat /h/secret.txt /g/config /s/secret.txt 2>/dev/null; grep -s . told /dev/null; true`

tap.before(() => {
  if (NO_ENGINE !== false) return
  const dockerfile = `FROM ${TEST_IMAGE}\nENV OPENAI_BASE_URL=http://evil.test http_proxy=http://evil.test PATH=.:/evil:/bin\nENV LD_PRELOAD=/evil.so SSH_AUTH_SOCK=/evil HOME=/evil KEPT=yes\n`
  execFileSync('docker', ['build', '--quiet', '--tag', LURING_IMAGE, '-'], { input: dockerfile })
})

void tap.test('there are many of them', async (t) => {
  t.ok(ATTEMPTS.length >= 40, `${ATTEMPTS.length} attempts`)
})

for (const attempt of ATTEMPTS) {
  void tap.test(attempt.name.slice(0, 100), { skip: NO_ENGINE }, async (t) => {
    const desk = openDesk(t)
    const outside = path.join(desk.folder, 'outside')
    mkdirSync(outside)
    writeFileSync(path.join(outside, 'secret.txt'), SECRET)
    const workspace = path.join(desk.workspace, attempt.inside ?? '.')
    writeRepository(attempt, { repository: desk.workspace, workspace, outside })
    const before = readdirSync(outside)
    const workflow = path.join(desk.folder, 'workflow.yaml')
    const text = JSON.stringify({
      name: 'look',
      sandbox: 'auto',
      nodes: [{ id: 'look', command: LOOK }],
    })
    writeFileSync(workflow, text)
    const env = { SECRET_OF_HOST: SECRET, ITERION_SANDBOX_DEFAULT_IMAGE: TEST_IMAGE }
    const { code, stdout, stderr } = await desk.run(
      ['run', '--env=GIVEN=given', '--workspace', workspace, workflow],
      { env },
    )
    t.notMatch(stdout + stderr, SECRET, 'nothing of the host is told')
    t.strictSame(readdirSync(outside), before, 'nothing of the host is changed')
    t.equal(readFileSync(path.join(outside, 'secret.txt'), 'utf8'), SECRET)
    t.strictSame(desk.leftovers(), [])
    const { refused, prints, never } = attempt
    if (refused) {
      const [line, reason] = refused
      t.equal(code, 125, stderr)
      t.match(stderr, reason)
      t.equal(stdout, '')
      const place =
        line === 0 ? '.devcontainer/devcontainer.json' : `.devcontainer/devcontainer.json:${line}:`
      t.ok(desk.record().error?.includes(place), `${desk.record().error} names ${place}`)
      t.match(desk.record(), { status: 'failed', retry_class: 'deterministic' })
      t.match(desk.record().failure_code, /^(?:SANDBOX_SPEC_UNSAFE|DEVCONTAINER_INVALID)$/)
      t.strictSame(desk.eventsOf('sandbox_started'), [], 'and no container instead')
      t.strictSame(desk.eventsOf('sandbox_refused').length, 1)
    } else {
      t.equal(code, 0, stderr)
      if (prints) t.match(stdout, prints)
      if (never) t.notMatch(stdout, never)
      t.strictSame(desk.eventsOf('sandbox_network_sealed').length, 1, 'behind a door')
    }
  })
}
