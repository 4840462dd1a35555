import { execFileSync } from 'node:child_process'
import { mkdtempSync, writeFileSync } from 'node:fs'
import { homedir, tmpdir } from 'node:os'
import path from 'node:path'
import tap from 'tap'
import { eventsOf, IDENTITY, NOW, openStage, runOn } from './support/trapped-host.ts'

// A run with every seam of its host recorded, while the real home, environment, folders and PATH are full of traps. A
// sealed one is in test/docker/hermetic.ts.

void tap.test('the traps catch what steps into them', async (t) => {
  const stage = openStage(t, {})
  t.strictSame(stage.trapped(), [])
  t.throws(() => execFileSync('docker', ['info'], { stdio: 'ignore' }))
  mkdtempSync(path.join(tmpdir(), 'x-'))
  writeFileSync(path.join(homedir(), 'y'), '')
  t.match(stage.trapped(), ['started', 'y', /^x-/])
})

void tap.test('a bare run asks its host, and nothing else', async (t) => {
  // Without a PATH there is no runtime to look for orphans with.
  const stage = openStage(t, { PATH: '', GREETING: 'hello' })
  const command = ['/bin/sh', '-c', 'echo "$GREETING $HOME $SECRET_OF_THE_TEST"; pwd']
  const { exitCode, record, said } = await runOn(stage, { command, flags: { sandbox: 'none' } })
  t.equal(exitCode, 0)
  t.equal(said.length, 1, 'the warning about the missing sandbox, and none about a trap')
  t.match(said[0], /C128/)
  t.equal(stage.output(), `hello  \n${stage.workspace}\n`)
  t.strictSame(
    stage.started.map(({ program }) => program),
    ['/bin/sh'],
  )
  t.strictSame(record.owner, IDENTITY)
  const time = new Date(NOW).toISOString()
  t.strictSame([record.created_at, record.updated_at], [time, time])
  const events = eventsOf(stage, record.id)
  t.ok(events.length > 0)
  for (const event of events) t.equal(event.ts, time, event.type)
  for (const name of ['cwd', 'env', 'identity', 'iterionHome', 'now', 'spawn']) {
    t.ok(stage.asked.has(name), name)
  }
  t.strictSame(stage.trapped(), [])
})
