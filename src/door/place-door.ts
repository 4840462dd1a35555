import { EgressError } from '../errors.ts'
import { isRootless } from './container-namespace.ts'
import type { Door, DoorChoice, DoorSite } from './door.ts'
import { placeNetnsDoor } from './netns-door.ts'
import { placeSidecarDoor } from './sidecar-door.ts'

/** The ways to place a door. */
export interface DoorMakers {
  readonly netns: (site: DoorSite) => Promise<Door>
  readonly sidecar: (site: DoorSite) => Promise<Door>
}

const MAKERS: DoorMakers = { netns: placeNetnsDoor, sidecar: placeSidecarDoor }

/**
 * Places a door. `auto` is the netns door for root and the sidecar door for others, and for root where the system does not
 * let it enter. Into a container of the caller's own engine it is the netns door. It is never advisory, and a door that was
 * placed and does not prove itself has no second.
 *
 * @throws {EgressError} SANDBOX_DOOR_FAILED; OPTION_INVALID for `advisory`, which is no door
 */
export async function placeDoor(
  choice: DoorChoice,
  site: DoorSite,
  makers: DoorMakers = MAKERS,
): Promise<Door> {
  switch (choice) {
    case 'netns':
      return makers.netns(site)
    case 'sidecar':
      assertOfRoot(site)
      return makers.sidecar(site)
    case 'auto':
      return placeAny(site, makers)
    default:
      throw new EgressError('OPTION_INVALID', `there is no door for ${choice}`)
  }
}

async function placeAny(site: DoorSite, makers: DoorMakers): Promise<Door> {
  if (isRootless(site.runtime, site.user.uid)) return makers.netns(site)
  if (site.user.uid !== 0) return makers.sidecar(site)
  try {
    return await makers.netns(site)
  } catch (error) {
    if (site.signal.aborted || !cannotEnter(error)) throw error
    return makers.sidecar(site)
  }
}

/** The relay runs under the caller's number, which in a rootless engine is somebody else's. */
function assertOfRoot({ runtime, user }: DoorSite): void {
  if (!isRootless(runtime, user.uid)) return
  throw new EgressError(
    'SANDBOX_DOOR_FAILED',
    'a rootless engine has no sidecar door: its relay could not reach the proxy; take --door netns, which needs no root there',
  )
}

/** True if the caller may not enter a namespace, or has no program to enter it with. */
function cannotEnter(error: unknown): boolean {
  if (!(error instanceof EgressError)) return false
  const { code } = (error.cause ?? {}) as NodeJS.ErrnoException
  return error.code === 'PROGRAM_MISSING' || code === 'EPERM' || code === 'EACCES'
}
