import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import { NO_ENGINE } from './docker.ts'
import { type Caller, type Desk, openDesk, ROOT } from './sandbox-run.ts'

const USER = 'iterion-egress-test'

/** Why tests as an ordinary user cannot run here; false if they can. In CI a skip is a failure. */
export const NO_USERS: string | false =
  NO_ENGINE || (process.getuid?.() === 0 ? false : 'only root can become another user')

/** An ordinary user of this machine who may talk to docker, as most who run containers are. Made if missing. */
export function ordinaryUser(): Caller & { readonly name: string } {
  if (spawnSync('id', [USER]).status !== 0) {
    execFileSync('useradd', ['--create-home', '--groups', 'docker', '--shell', '/bin/sh', USER])
  }
  const number = (flag: string) => Number(execFileSync('id', [flag, USER], { encoding: 'utf8' }))
  return { uid: number('-u'), gid: number('-g'), name: USER }
}

/** A desk of {@link ordinaryUser}, with a copy of the program that everybody can read. */
export function openUserDesk(t: Test): Desk {
  const folder = mkdtempSync(path.join(tmpdir(), 'program-'))
  t.teardown(() => rmSync(folder, { recursive: true, force: true }))
  execFileSync(process.execPath, [path.join(ROOT, 'scripts/image-context.js'), folder])
  execFileSync('chmod', ['-R', 'a+rX', folder])
  const program = path.join(folder, 'bin/iterion-egress.js')
  const desk = openDesk(t, ordinaryUser())
  const start: Desk['start'] = (args, options) => desk.start(args, { program, ...options })
  const run: Desk['run'] = (args, options) => start(args, { input: '', ...options }).done
  return { ...desk, start, run }
}
