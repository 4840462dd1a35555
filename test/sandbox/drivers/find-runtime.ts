import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { systemSpawner } from '../../../src/door/spawn.ts'
import { findOnPath, findRuntime, findRuntimes } from '../../../src/sandbox/drivers/find-runtime.ts'
import type { SandboxHost } from '../../../src/sandbox/host.ts'

/** A machine with these programs on PATH, each in a folder of its own. */
function hostWith(t: Test, programs: readonly string[], env: SandboxHost['env'] = {}): SandboxHost {
  const root = t.testdir()
  const folders = programs.map((name) => {
    const folder = path.join(root, `${name}-bin`)
    mkdirSync(folder, { recursive: true })
    writeFileSync(path.join(folder, name), '#!/bin/sh\n')
    chmodSync(path.join(folder, name), 0o755)
    return folder
  })
  return {
    home: '/home/ada',
    env: { PATH: folders.join(':'), ...env },
    iterionHome: '/home/ada/.iterion',
    tempRoot: '/tmp',
    cwd: root,
    now: () => 0,
    resolver: async () => [],
    spawn: systemSpawner,
    signal: () => undefined,
    user: { uid: 1, gid: 1, name: 'ada' },
    memoryBytes: 1,
    identity: { bootId: '', pidNamespace: '', pid: 1, startTime: '' },
  }
}

void tap.test('docker comes first, whatever the order on PATH', async (t) => {
  const host = hostWith(t, ['podman', 'docker'])
  t.equal(findRuntime(host)?.name, 'docker')
  t.strictSame(
    findRuntimes(host).map(({ name }) => name),
    ['docker', 'podman'],
  )
})

void tap.test('a runtime is what is there, or what is asked for', async (t) => {
  for (const [programs, wanted, found] of [
    [[], undefined, undefined],
    [['podman'], undefined, 'podman'],
    [['docker', 'podman'], 'podman', 'podman'],
    [['docker', 'podman'], 'docker', 'docker'],
    [['docker'], 'podman', undefined],
  ] as const) {
    const env = wanted === undefined ? {} : { ITERION_SANDBOX_RUNTIME: wanted }
    const runtime = findRuntime(hostWith(t, programs, env))
    t.equal(runtime?.name, found, `${programs.join()} ${wanted}`)
  }
  for (const wanted of ['', 'Docker', 'nerdctl']) {
    const host = hostWith(t, ['docker'], { ITERION_SANDBOX_RUNTIME: wanted })
    t.throws(() => findRuntime(host), { code: 'OPTION_INVALID' }, wanted)
  }
})

void tap.test('an engine elsewhere is refused', async (t) => {
  for (const [program, variable] of [
    ['docker', 'DOCKER_HOST'],
    ['podman', 'CONTAINER_HOST'],
  ] as const) {
    for (const address of [
      'tcp://10.0.0.1:2375',
      'ssh://ada@host/run/x.sock',
      'npipe:////./pipe/x',
    ]) {
      const host = hostWith(t, [program], { [variable]: address })
      t.throws(() => findRuntime(host), { code: 'SANDBOX_ENGINE_UNREACHABLE' }, address)
    }
    const host = hostWith(t, [program], { [variable]: 'unix:///run/x.sock' })
    t.equal(findRuntime(host)?.env[variable], 'unix:///run/x.sock')
  }
})

void tap.test('the command line gets what it finds its engine by, and no more', async (t) => {
  const env = {
    HTTP_PROXY: 'http://proxy.test',
    SECRET: 'x',
    NODE_OPTIONS: '--inspect',
    LC_ALL: 'fr_FR.UTF-8',
    CONTAINERS_CONF: '/c',
    DOCKER_CONFIG: '/d',
    HOME: '/home/else',
  }
  const host = hostWith(t, ['docker'], env)
  t.strictSame(findRuntime(host)?.env, {
    PATH: host.env['PATH'],
    CONTAINERS_CONF: '/c',
    DOCKER_CONFIG: '/d',
    HOME: '/home/ada',
    LC_ALL: 'C',
  })
})

void tap.test('a program on PATH is a file that can be started', async (t) => {
  const host = hostWith(t, ['docker'])
  mkdirSync(path.join(host.cwd, 'folder/docker'), { recursive: true })
  mkdirSync(path.join(host.cwd, 'plain'))
  writeFileSync(path.join(host.cwd, 'plain/docker'), '')
  const at = (value: string) => findOnPath('docker', { cwd: host.cwd, env: { PATH: value } })
  t.equal(at(`${host.cwd}/folder:${host.cwd}/plain`), undefined)
  t.equal(at(':'), undefined, 'an empty part is not the working folder')
  t.equal(at('docker-bin'), `${host.cwd}/docker-bin/docker`)
})
