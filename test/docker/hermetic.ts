import { readdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import type { SandboxHost } from '../../src/sandbox/host.ts'
import { buildProjectImage, NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { eventsOf, NOW, openStage, runOn } from '../support/trapped-host.ts'

void tap.test(
  'a sealed run asks every seam of its host, and nothing else',
  { skip: NO_ENGINE },
  async (t) => {
    const isRoot = process.getuid?.() === 0
    const sidecar = isRoot ? null : await buildProjectImage()
    const { PATH = '', DOCKER_HOST } = process.env
    const stage = openStage(t, { PATH, ...(DOCKER_HOST !== undefined && { DOCKER_HOST }) })
    const policy = path.join(stage.root, 'policy.yaml')
    writeFileSync(policy, 'version: 1\nrules: [allowed.test]\n')
    const { exitCode, record, said, leftBehind } = await runOn(stage, {
      image: TEST_IMAGE,
      policy,
      command: ['curl', '-s', '-o', '/dev/null', '-w', '%{http_code}', 'http://allowed.test/'],
      flags: { sidecar_image: sidecar },
    })
    t.match({ exitCode, leftBehind }, { exitCode: 0, leftBehind: [] }, said.join('\n'))
    t.equal(stage.output().match(/502/)?.[0], '502', 'the name has no address')
    t.strictSame(stage.resolved, ['allowed.test'])
    t.strictSame(said, [], 'no warning about a trap')
    const { home, tempRoot } = stage.host
    for (const { program, args, env } of stage.started) {
      t.match(program, program === 'nsenter' ? 'nsenter' : /^\/.*\/docker$/)
      t.notMatch(JSON.stringify([args, env]), /trap-|trap\.invalid/, `${program} ${args[0]}`)
      if (program !== 'nsenter') t.equal(env['HOME'], home, args.join(' '))
    }
    const run = stage.started.find(({ args }) => args[0] === 'run')?.args ?? []
    t.ok(run.some((arg) => arg.startsWith(`--cidfile=${tempRoot}/`)))
    t.ok(run.some((arg) => /^--label=.*boot=the-boot-of-a-test$/.test(arg)))
    t.ok(run.includes(`--memory=${3 * 1024 ** 3}`))
    t.ok(run.includes(`--user=${stage.host.user.uid}:${stage.host.user.gid}`))
    t.equal(record.created_at, new Date(NOW).toISOString())
    for (const event of eventsOf(stage, record.id)) t.equal(event.ts, record.created_at, event.type)
    const all: Readonly<Record<Exclude<keyof SandboxHost, 'signal'>, true>> = {
      home: true,
      env: true,
      iterionHome: true,
      tempRoot: true,
      cwd: true,
      now: true,
      resolver: true,
      spawn: true,
      user: true,
      memoryBytes: true,
      identity: true,
    }
    for (const name of Object.keys(all)) t.ok(stage.asked.has(name), `${name} was asked`)
    t.strictSame(readdirSync(tempRoot), [])
    t.strictSame(stage.trapped(), [])
  },
)
