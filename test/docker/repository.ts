import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { type Desk, openDesk } from '../support/sandbox-run.ts'
import { NO_USERS, openUserDesk } from '../support/users.ts'

/** A repository that says something, and a workflow beside it that prints. */
function write(desk: Desk, says: object, command = 'id -u', isRepository = true): string {
  if (isRepository) execFileSync('git', ['init', '--quiet', desk.workspace])
  const folder = path.join(desk.workspace, '.devcontainer')
  mkdirSync(folder, { recursive: true })
  const text = JSON.stringify({ image: TEST_IMAGE, ...says })
  writeFileSync(path.join(folder, 'devcontainer.json'), text)
  const workflow = path.join(desk.workspace, 'w.yaml')
  writeFileSync(workflow, JSON.stringify({ name: 'w', nodes: [{ id: 'only', command }] }))
  execFileSync('chown', ['-R', `--reference=${desk.workspace}`, desk.workspace])
  return workflow
}

void tap.test('nobody is made root who is not', { skip: NO_USERS }, async (t) => {
  const desk = openUserDesk(t)
  const workflow = write(desk, {
    remoteUser: 'root',
    postCreateCommand: 'id -u > who; touch made',
  })
  const { code, stdout, stderr } = await desk.run(['run', '--sandbox-default-image', 'x', workflow])
  t.equal(code, 125, 'the relay of the sidecar door is not here, and there is no other')
  t.match(stderr, /devcontainer\.json: root is not taken/)
  t.equal(stdout, '')
  const { uid } = statSync(desk.workspace)
  t.match(desk.eventsOf('sandbox_user_remap'), [{ from: 'root' }])
  t.match(desk.eventsOf('sandbox_user_remap')[0]?.to, new RegExp(`^${uid}:`))
})

void tap.test(
  'a file that is in no repository is not read, and that is told',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const workflow = write(desk, { privileged: true }, 'id -u', false)
    const env = { ITERION_SANDBOX_DEFAULT_IMAGE: TEST_IMAGE }
    const { code, stderr } = await desk.run(['run', workflow], { env })
    t.equal(code, 0)
    t.match(stderr, /warning: the devcontainer\.json here is not read/)
    t.strictSame(desk.eventsOf('sandbox_devcontainer_read'), [])
  },
)

void tap.test(
  'it is told that the network is held, and what a volume is',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const mounts = ['type=volume,source=cache,target=/cache', 'type=tmpfs,target=/fast']
    const workflow = write(desk, { mounts }, 'mount | grep -c -E " on /(cache|fast) "')
    const { code, stdout, stderr } = await desk.run(['run', workflow])
    t.match({ code, stdout }, { code: 0, stdout: '2\n' }, stderr)
    t.match(
      stderr,
      /devcontainer\.json chose the sandbox, so its network is held to iterion-default/,
    )
    t.match(stderr, /the volume cache is not kept/)
    t.match(desk.eventsOf('sandbox_network_defaulted'), [{ preset: 'iterion-default' }])
  },
)

void tap.test(
  'a run whose repository lost its file says what that means',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const workflow = write(desk, {}, 'false')
    await desk.run(['run', workflow])
    const { id } = desk.record()
    t.ok(desk.record().policy_digest)
    rmSync(path.join(desk.workspace, '.devcontainer'), { recursive: true })
    const resumed = await desk.run(['resume', id])
    t.match(resumed, { code: 125, stderr: /its policy, which is gone: the network would be open/ })
    write(desk, { containerEnv: { A: '1' } }, 'false')
    const changed = await desk.run(['resume', id])
    t.match(changed, {
      code: 125,
      stderr: /the workflow or \.devcontainer\/devcontainer\.json changed/,
    })
    t.equal(
      JSON.parse(readFileSync(path.join(desk.iterionHome, 'runs', id, 'run.json'), 'utf8')).attempt,
      1,
    )
  },
)

void tap.test('a floor above auto does not open the network', { skip: NO_ENGINE }, async (t) => {
  const desk = openDesk(t)
  const workflow = write(desk, {}, 'grep -c : /proc/net/dev')
  for (const flags of [[], ['--sandbox', 'none']]) {
    const env = { ITERION_SANDBOX_FLOOR: 'inline' }
    const { code, stdout } = await desk.run(['run', ...flags, workflow], { env })
    t.match({ code, stdout }, { code: 0, stdout: '1\n' }, 'loopback alone')
    t.match(desk.eventsOf('sandbox_network_defaulted'), [{ preset: 'iterion-default' }])
  }
})

void tap.test(
  'nothing of an image that a repository chose is root for a caller who is not',
  { skip: NO_USERS },
  async (t) => {
    const desk = openUserDesk(t)
    const workflow = write(desk, { remoteUser: '000', postCreateCommand: 'id -u >> who' })
    const command = 'stat -c %u /proc/1 >> who; id -u >> who; cat who'
    const sandbox = { mode: 'auto', network: 'open', post_create: 'id -u >> who' }
    writeFileSync(
      workflow,
      JSON.stringify({ name: 'w', sandbox, nodes: [{ id: 'only', command }] }),
    )
    const { uid } = statSync(desk.workspace)
    const { code, stdout, stderr } = await desk.run(['run', workflow])
    t.match({ code, stdout }, { code: 0, stdout: `${uid}\n`.repeat(4) }, stderr)
    t.equal(statSync(path.join(desk.workspace, 'who')).uid, uid)
  },
)

/** Scripts with Windows line ends, as their author would call them. */
const WINDOWS_SCRIPTS: readonly [name: string, script: string, command: string | string[]][] = [
  ['dash and the kernel', '#!/bin/sh\r\necho a\r\n', './x.sh'],
  ['bash and the kernel', '#!/bin/bash\r\necho a\r\n', "bash -c 'echo before; ./x.sh'"],
  ['the kernel, without a shell', '#!/bin/sh\r\necho a\r\n', ['./x.sh']],
  ['env', '#!/usr/bin/env bash\r\necho a\r\n', './x.sh'],
  ['an option of the interpreter', '#!/bin/sh -e\r\necho a\r\n', './x.sh'],
  ['dash as the interpreter', 'set -e\r\necho a\r\n', 'sh x.sh'],
  ['bash as the interpreter', 'echo a\r\n\r\nfalse\r\n', 'bash x.sh'],
  [
    'Node.js',
    '#!/bin/sh\r\n',
    `node -e "require('child_process').spawn('./x.sh')" 2>&1 | grep ENOENT; exit 1`,
  ],
]

void tap.test(
  'D-18: a script with Windows line ends is explained, and another one is not',
  { skip: NO_ENGINE },
  async (t) => {
    const hint = /SANDBOX_SETUP_FAILED.*A script has Windows line ends.*eol=lf.*core\.autocrlf/s
    const desk = openDesk(t)
    const script = path.join(desk.workspace, 'x.sh')
    for (const [name, text, postCreateCommand] of WINDOWS_SCRIPTS) {
      const workflow = write(desk, { postCreateCommand })
      writeFileSync(script, text, { mode: 0o755 })
      const { code, stderr } = await desk.run(['run', workflow])
      t.equal(code, 125, name)
      t.match(stderr, hint, name)
      t.match(desk.record().error, /Windows line ends/, name)
      t.strictSame(desk.leftovers(), [])
    }
    const workflow = write(desk, { postCreateCommand: './x.sh' })
    for (const text of ['#!/bin/none\necho a\r\n', '#!/bin/sh\nno-such-program\n']) {
      writeFileSync(script, text, { mode: 0o755 })
      const { code, stderr } = await desk.run(['run', workflow])
      t.equal(code, 125)
      t.match(stderr, /post_create ended with 127:\n/)
      t.notMatch(stderr, /Windows/)
    }
    writeFileSync(script, '#!/bin/sh\necho from the script\n', { mode: 0o755 })
    t.match(await desk.run(['run', workflow]), { code: 0, stderr: /^from the script$/m })
  },
)
