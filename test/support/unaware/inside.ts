import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Test } from 'tap'
import { PROJECT_IMAGE } from '../docker.ts'
import { type Desk, openDesk } from '../sandbox-run.ts'
import { openUserDesk, ordinaryUser } from '../users.ts'
import { CLIENT_IMAGE } from './client-image.ts'
import { followRunner, type ProgramRunner, RUNNER_WORDS } from './program-runner.ts'

/** The doors of a sealed run. As root the first of them is taken, as an ordinary user the second. */
export const DOORS = ['netns', 'sidecar'] as const
export type SealedDoor = (typeof DOORS)[number]

/** A sealed run that runs one program after the other, none of which has a proxy variable. */
export interface Inside extends ProgramRunner {
  readonly desk: Desk
}

/** A desk of the caller whom a door is for: root, or an ordinary user. */
export function openDoorDesk(t: Test, door: SealedDoor): Desk {
  return door === 'netns' ? openDesk(t) : openUserDesk(t)
}

/**
 * Starts the run, with everything in the workspace given to the caller.
 *
 * @param policy the text of its policy
 * @param resolve values of `--resolve`
 */
export async function openInside(
  t: Test,
  door: SealedDoor,
  desk: Desk,
  { policy, resolve }: { readonly policy: string; readonly resolve: readonly string[] },
): Promise<Inside> {
  mkdirSync(desk.workspace, { recursive: true })
  writeFileSync(path.join(desk.workspace, 'policy.yaml'), policy)
  const { uid, gid } = door === 'netns' ? { uid: 0, gid: 0 } : ordinaryUser()
  execFileSync('chown', ['-R', `${uid}:${gid}`, desk.workspace])
  const place = ['--image', CLIENT_IMAGE, '--door', door, '--sidecar-image', PROJECT_IMAGE]
  const options = ['--policy', 'policy.yaml', ...resolve.flatMap((one) => ['--resolve', one])]
  const words = ['run', '-i', ...place, ...options, '--', ...RUNNER_WORDS]
  return { desk, ...(await followRunner(t, desk.start(words))) }
}
