import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import type { PlanDocument } from '../../src/cli/plan-document.ts'
import { docker, NO_ENGINE, TEST_IMAGE, uniqueName } from '../support/docker.ts'
import { containerCall, nodeCalls, plannedNodes, recordEngine } from '../support/engine-recorder.ts'
import { type Desk, openDesk } from '../support/sandbox-run.ts'
import { devcontainer, workflow } from '../support/workflow-file.ts'

/** A way to call the program. */
interface Scene {
  readonly title: string
  /** Makes what is there; answers the words behind `run` and `plan`. */
  readonly make: (desk: Desk) => Promise<readonly string[]> | readonly string[]
  readonly env?: (desk: Desk) => Readonly<Record<string, string>>
}

/** An image with folders that are volumes, a user and variables of its own. */
async function richImage(t: Test): Promise<string> {
  const name = uniqueName('rich')
  const container = (await docker('create', TEST_IMAGE, 'true')).trim()
  const changes = [
    'VOLUME ["/data","/cache"]',
    'USER 1234',
    'ENV API_TOKEN=abc PLAIN=yes LD_PRELOAD=',
  ]
  await docker('commit', ...changes.flatMap((one) => ['--change', one]), container, name)
  await docker('rm', container)
  t.teardown(async () => docker('rmi', '-f', name))
  return name
}

const SCENES: readonly Scene[] = [
  {
    title: 'host state of a first run, in a home that is a link',
    make: (desk) => {
      mkdirSync(path.join(desk.folder, 'real/.claude'), { recursive: true })
      symlinkSync(path.join(desk.folder, 'real'), path.join(desk.folder, 'linked'))
      return ['--sandbox-host-state', 'auto', workflow(desk, { sandbox: { image: TEST_IMAGE } })]
    },
    env: (desk) => ({
      HOME: path.join(desk.folder, 'linked'),
      ITERION_HOME: path.join(desk.folder, 'linked/.iterion'),
    }),
  },
  {
    title: 'claw where a folder lies over its place',
    make: (desk) => {
      mkdirSync(path.join(desk.folder, 'own'))
      const file = path.join(desk.folder, 'own/iterion')
      writeFileSync(file, '#!/bin/sh\ncat > /dev/null\n', { mode: 0o755 })
      const mounts = [{ source: '../own', target: '/usr/local/bin', read_only: true }]
      const nodes = [{ id: 'a', backend: 'claw', command: 'x' }]
      return [workflow(desk, { sandbox: { image: TEST_IMAGE, mounts }, nodes })]
    },
    env: (desk) => ({ ITERION_BIN: path.join(desk.folder, 'own/iterion') }),
  },
  {
    title: 'a command line with an open network',
    make: () => ['--image', TEST_IMAGE, '--', 'true'],
  },
  {
    title: 'a policy, a pinned user, variables, secrets, a mount, an attachment',
    make: (desk) => {
      mkdirSync(path.join(desk.folder, 'extra'))
      writeFileSync(path.join(desk.folder, 'note'), 'x')
      const sandbox = {
        image: TEST_IMAGE,
        user: '1000:1000',
        env: { A: 'b', SOME_TOKEN: 'hidden' },
        mounts: [`${desk.folder}/extra:/extra:ro`],
        network: { rules: ['a.test'] },
        workspace_folder: '/work',
        post_create: 'true',
      }
      const secrets = [
        { name: 'ONE', as: 'env', from: { env: 'ONE' } },
        { name: 'TWO', as: 'file', from: { env: 'ONE' } },
      ]
      const nodes = [
        { id: 'a', command: 'true' },
        { id: 'b', command: ['echo', 'two words'] },
      ]
      chmodSync(desk.workspace, 0o777)
      return [
        '--env',
        'GIVEN=1',
        workflow(desk, { sandbox, secrets, nodes, attachments: ['../note'] }),
      ]
    },
    env: () => ({ ONE: '1' }),
  },
  {
    title: 'a repository with mounts, flags and variables',
    make: (desk) => {
      devcontainer(desk, {
        mounts: ['type=volume,target=/cache', 'type=tmpfs,target=/fast'],
        runArgs: ['--shm-size=64m'],
        containerEnv: { GOOD: '1', NODE_OPTIONS: '--require x' },
        workspaceFolder: '/workspaces/x',
      })
      return [workflow(desk, {})]
    },
  },
  {
    title: 'host state whose folders are missing, in a git repository',
    make: (desk) => {
      execFileSync('git', ['init', '--quiet', desk.workspace])
      mkdirSync(path.join(desk.home, '.claude'))
      return ['--sandbox-host-state', 'auto', workflow(desk, { sandbox: { image: TEST_IMAGE } })]
    },
  },
  {
    title: 'claw by the iterion of this machine',
    make: (desk) => {
      const file = path.join(desk.folder, 'iterion')
      writeFileSync(file, '#!/bin/sh\ncat > /dev/null\n')
      chmodSync(file, 0o755)
      const nodes = [{ id: 'a', backend: 'claw', command: 'x', fallback: ['codex'] }]
      return [workflow(desk, { sandbox: { image: TEST_IMAGE, network: { rules: [] } }, nodes })]
    },
    env: (desk) => ({ ITERION_BIN: path.join(desk.folder, 'iterion') }),
  },
  {
    title: 'a floor over a word for less, limits and bounds',
    make: (desk) => ['--sandbox', 'none', workflow(desk, {})],
    env: () => ({
      ITERION_SANDBOX_FLOOR: 'auto',
      ITERION_SANDBOX_DEFAULT_IMAGE: TEST_IMAGE,
      ITERION_SANDBOX_PIDS: '100',
      ITERION_SANDBOX_MEMORY: '512m',
    }),
  },
]

/** Every file and folder below one. */
function treeOf(folder: string): string[] {
  return readdirSync(folder, { recursive: true, encoding: 'utf8' }).toSorted()
}

/** Plans, looks that nothing was made, runs, and compares. */
async function compare(t: Test, desk: Desk, words: readonly string[], env: Record<string, string>) {
  const recorder = recordEngine(desk)
  const options = { env: { ...env, PATH: `${recorder.folder}:${process.env['PATH']}` }, input: '' }
  const before = treeOf(desk.folder)
  const planned = await desk.run(['plan', '--json', ...words], options)
  t.equal(planned.code, 0, planned.stderr)
  const asked = recorder.take().map(({ args }) => args.slice(0, 2).join(' '))
  t.strictSame(
    asked.filter((one) => !/^(?:image inspect|version |info |buildx version)/.test(one)),
    [],
    'the engine is only asked',
  )
  t.strictSame(
    treeOf(desk.folder).filter((one) => !one.startsWith('recorder')),
    before.filter((one) => !one.startsWith('recorder')),
    'nothing is made',
  )
  const plan = JSON.parse(planned.stdout) as PlanDocument
  const ran = await desk.run(['run', ...words], options)
  t.equal(ran.code, 0, ran.stderr)
  const calls = recorder.take()
  const [, id = ''] = /^iterion-egress: run (\S+)$/m.exec(ran.stderr) ?? []
  t.strictSame([recorder.program, ...containerCall(calls, id)], plan.sandbox?.argv)
  const nodes = nodeCalls(calls).slice(plan.sandbox?.post_create.length ?? 0)
  const expected = plannedNodes(plan)
  t.equal(nodes.length, expected.length)
  for (const [index, node] of nodes.entries()) {
    const { env: variables, ...rest } = expected[index] ?? { env: [] }
    const { env: lines, ...real } = node
    t.strictSame(real, rest, `node ${index}`)
    t.strictSame(
      lines.toSorted(),
      lines
        .map((line) => line.split('=', 1)[0] ?? '')
        .map((name) => {
          const found = variables.find((one) => one.name === name)
          const value =
            found?.value ??
            lines.find((line) => line.startsWith(`${name}=`))?.slice(name.length + 1)
          return `${name}=${value}`
        })
        .toSorted(),
      'values that are not hidden are those of the run',
    )
    t.strictSame(
      variables.map(({ name }) => name).toSorted(),
      lines.map((line) => line.split('=', 1)[0]).toSorted(),
      'the same names',
    )
  }
  // A scene may have its records elsewhere.
  if (desk.records().length === 0) return plan
  const [started] = desk.eventsOf('sandbox_started')
  t.match(
    {
      user: plan.sandbox?.user,
      workdir: plan.sandbox?.workdir,
      id: plan.sandbox?.image.id,
      door: plan.sandbox?.door,
    },
    {
      user: started?.user,
      workdir: started?.workspace,
      id: started?.image_id,
      door: started?.door,
    },
  )
  return plan
}

for (const { title, make, env } of SCENES) {
  void tap.test(`plan and run do not differ: ${title}`, { skip: NO_ENGINE }, async (t) => {
    const desk = openDesk(t)
    const words = await make(desk)
    await compare(t, desk, words, { ...env?.(desk) })
  })
}

void tap.test(
  'plan and run do not differ: a rich image, and a build',
  { skip: NO_ENGINE },
  async (t) => {
    const image = await richImage(t)
    const desk = openDesk(t)
    const plan = await compare(t, desk, ['--image', image, '--', 'true'], {})
    t.match(plan.sandbox, { image_user: '1234' })
    t.strictSame(
      plan.sandbox?.environment
        .filter(({ from }) => from === 'image')
        .map(({ name, value, hidden }) => ({ name, value, hidden }))
        .filter(({ name }) => name !== 'PATH'),
      [
        { name: 'API_TOKEN', value: null, hidden: true },
        { name: 'PLAIN', value: 'yes', hidden: false },
        { name: 'LD_PRELOAD', value: '', hidden: false },
      ],
    )
    const builder = openDesk(t)
    devcontainer(builder, { image: undefined, build: { dockerfile: 'Dockerfile' } })
    writeFileSync(
      path.join(builder.workspace, 'Dockerfile'),
      `FROM ${image}\nENV MADE=${uniqueName('x')}\n`,
    )
    const words = [workflow(builder, {})]
    const { code, stdout } = await builder.run(['plan', ...words])
    t.equal(code, 0)
    t.match(stdout, /not here, would be built from .*Dockerfile/)
    await builder.run(['run', ...words])
    const built = await compare(t, builder, words, {})
    t.teardown(async () => docker('rmi', '-f', built.sandbox?.image.name ?? ''))
    t.match(built.sandbox?.denied, [{ source: 'image', names: ['API_TOKEN', 'LD_PRELOAD'] }])
  },
)
