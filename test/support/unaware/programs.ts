import { execFileSync } from 'node:child_process'
import { chmodSync, cpSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { makeAptSystem } from '../clients/apt-system.ts'
import { DENIED, type FarSide, OTHER_PORT, WEB } from './far-side.ts'
import { packagePrograms } from './package-programs.ts'
import { sessionPrograms } from './session-programs.ts'
import { placeIn, type UnawareProgram } from './unaware-program.ts'
import { webPrograms } from './web-programs.ts'

const SCRIPTS = ['fetch_untrusting.py', 'converse.js', 'own-servers.js', 'with-server.js']

/** Puts what programs need into a workspace, and tells how they are used there. */
export function unawareProgramsIn(workspace: string, far: FarSide): readonly UnawareProgram[] {
  const place = placeIn(workspace)
  const { at, ca } = place
  const support = (name: string) => path.resolve(import.meta.dirname, name)
  writeFileSync(ca, far.authority.ca)
  for (const name of SCRIPTS) cpSync(support(name), at(name))
  cpSync(far.clientKey, at('key'))
  chmodSync(at('key'), 0o600)
  writeFileSync(at('known_hosts'), `git.allowed.test ${far.hostKey}\n`)
  execFileSync('javac', ['--release', '11', '-d', workspace, support('../clients/Fetch.java')])
  for (const [use, origin] of [
    ['allowed', 'https://archive.allowed.test'],
    ['name', `https://${DENIED}`],
    ['port', `https://${WEB}:${OTHER_PORT}`],
  ] as const) {
    makeAptSystem(at(`apt-${use}`), ca, origin)
  }
  return [...webPrograms(place, far), ...sessionPrograms(place), ...packagePrograms(place)]
}
