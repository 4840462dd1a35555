import tap from 'tap'
import type { Door, DoorChoice, DoorSite } from '../../src/door/door.ts'
import { planDoor } from '../../src/door/door-plan.ts'
import { placeDoor } from '../../src/door/place-door.ts'
import { EgressError } from '../../src/errors.ts'
import { testRuntime } from '../support/docker.ts'
import { policyOf } from '../support/policy-of.ts'

function siteFor(uid: number, signal = new AbortController().signal): DoorSite {
  return {
    runtime: testRuntime(),
    containerId: 'x',
    directory: '/nowhere',
    user: { uid, gid: uid },
    plan: planDoor(policyOf([])),
    labels: {},
    sidecarImage: 'none',
    signal,
  }
}

/** Which doors were tried, and how it ended. */
async function tried(choice: DoorChoice, site: DoorSite, fault?: unknown): Promise<string> {
  const log: string[] = []
  const door: Door = {
    kind: 'netns',
    servers: [],
    datagrams: undefined,
    taken: [],
    missing: undefined,
    containers: [],
    probe: async () => undefined,
    close: async () => undefined,
  }
  const makers = {
    netns: async () => {
      log.push('netns')
      if (fault !== undefined) throw fault
      return door
    },
    sidecar: async () => {
      log.push('sidecar')
      return { ...door, kind: 'sidecar' as const }
    },
  }
  const end = await placeDoor(choice, site, makers).then(
    ({ kind }) => kind,
    (error: unknown) => (error instanceof EgressError ? error.code : 'other'),
  )
  return [...log, end].join(' ')
}

function failure(cause?: string): EgressError {
  return new EgressError('SANDBOX_DOOR_FAILED', 'x', {
    cause: cause && Object.assign(new Error('x'), { code: cause }),
  })
}

void tap.test('auto takes what works here, and never goes without a door', async (t) => {
  const root = siteFor(0)
  const rows: [choice: DoorChoice, site: DoorSite, fault: unknown, result: string][] = [
    ['netns', root, undefined, 'netns netns'],
    ['netns', root, failure('EPERM'), 'netns SANDBOX_DOOR_FAILED'],
    ['netns', siteFor(1000), undefined, 'netns netns'],
    ['sidecar', root, undefined, 'sidecar sidecar'],
    ['auto', root, undefined, 'netns netns'],
    ['auto', siteFor(1000), undefined, 'sidecar sidecar'],
    ['auto', root, failure('EPERM'), 'netns sidecar sidecar'],
    ['auto', root, failure('EACCES'), 'netns sidecar sidecar'],
    ['auto', root, new EgressError('PROGRAM_MISSING', 'x'), 'netns sidecar sidecar'],
    ['auto', root, failure(), 'netns SANDBOX_DOOR_FAILED'],
    ['auto', root, failure('ENOENT'), 'netns SANDBOX_DOOR_FAILED'],
    ['auto', root, new TypeError('x'), 'netns other'],
    ['auto', siteFor(0, AbortSignal.abort()), failure('EPERM'), 'netns SANDBOX_DOOR_FAILED'],
    ['advisory', root, undefined, 'OPTION_INVALID'],
  ]
  for (const [choice, site, fault, result] of rows) {
    t.equal(await tried(choice, site, fault), result, `${choice} ${site.user.uid} ${String(fault)}`)
  }
})
