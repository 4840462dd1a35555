import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import { systemSpawner } from '../../src/door/spawn.ts'
import { systemResolver } from '../../src/proxy/system-resolver.ts'
import type { SandboxHost } from '../../src/sandbox/host.ts'
import { readIdentity } from '../../src/sandbox/process-identity.ts'

/** A machine without a container runtime, with folders of the test's own. */
export function bareHost(t: Test, more: Partial<SandboxHost> = {}): SandboxHost {
  const root = mkdtempSync(path.join(tmpdir(), 'iet-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  const [home = '', cwd = '', tempRoot = ''] = ['home', 'work', 'tmp'].map((name) => {
    mkdirSync(path.join(root, name), { mode: 0o700 })
    return path.join(root, name)
  })
  return {
    home,
    env: { PATH: '' },
    iterionHome: path.join(home, '.iterion'),
    tempRoot,
    cwd,
    now: Date.now,
    resolver: systemResolver,
    spawn: systemSpawner,
    signal: (pid) => t.fail(`a signal to ${pid}`),
    user: { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0, name: 'ada' },
    memoryBytes: 1024 ** 3,
    identity: readIdentity(process.pid),
    ...more,
  }
}
