import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import type { Readable } from 'node:stream'
import type { Test } from 'tap'
import type { Door, DoorKind, DoorSite } from '../../src/door/door.ts'
import { planDoor } from '../../src/door/door-plan.ts'
import { placeDoor } from '../../src/door/place-door.ts'
import { serveDoor } from '../../src/door/serve-door.ts'
import { SyntheticNames } from '../../src/door/synthetic-names.ts'
import type { EgressEvent } from '../../src/events/event.ts'
import { createEgressProxy, type EgressProxy } from '../../src/proxy/egress-proxy.ts'
import {
  docker,
  NO_ENGINE,
  type Outside,
  PROJECT_IMAGE,
  shortFolder,
  startSleeper,
  testRuntime,
} from './docker.ts'
import { policyOf } from './policy-of.ts'
import { pause } from './proxy.ts'

/** Why both doors cannot be placed here; false if they can. */
export const NO_DOORS: string | false =
  NO_ENGINE || (process.getuid?.() === 0 ? false : 'only root can place both doors')

/** A door into a container of its own, served by a proxy that allows `outside.test`. */
export interface OpenedDoor {
  readonly container: string
  readonly door: Door
  readonly proxy: EgressProxy
  readonly events: readonly EgressEvent[]
  /** Runs a program inside and gives what it printed. */
  readonly inside: (...command: readonly string[]) => Promise<string>
}

const OUTSIDE_ALONE = policyOf([{ host: 'outside.test', ports: ['*'] }])

/** Where a door is to be placed. */
export function siteOf(t: Test, containerId: string, more: Partial<DoorSite> = {}): DoorSite {
  return {
    runtime: testRuntime(),
    containerId,
    directory: shortFolder(t),
    user: { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 },
    plan: planDoor(OUTSIDE_ALONE),
    labels: { 'test.door': containerId },
    sidecarImage: PROJECT_IMAGE,
    signal: new AbortController().signal,
    ...more,
  }
}

/** Places a door and serves it. */
export async function openDoor(t: Test, kind: DoorKind, outside?: Outside): Promise<OpenedDoor> {
  const container = await startSleeper(t)
  const door = await placeDoor(kind, siteOf(t, container))
  t.teardown(() => door.close())
  const events: EgressEvent[] = []
  const names = new SyntheticNames(OUTSIDE_ALONE.door.syntheticRange, Date.now)
  const proxy = createEgressProxy({
    policy: OUTSIDE_ALONE,
    names,
    resolver: async () => (outside ? [{ address: outside.address, given: true }] : []),
    onEvent: (event) => events.push(event),
  })
  t.teardown(() => proxy.close({ drainTimeoutMs: 0 }))
  serveDoor(door, proxy, { plan: planDoor(OUTSIDE_ALONE), names, now: Date.now })
  return {
    container,
    door,
    proxy,
    events,
    inside: (...command) => docker('exec', container, ...command),
  }
}

/** True for an error that was caught. */
export function isError(value: unknown): boolean {
  return value instanceof Error
}

/** Waits until something is so, and gives up after a while. */
export async function untilSo(isSo: () => Promise<boolean>): Promise<void> {
  for (let tries = 0; !(await isSo()); tries++) {
    if (tries === 200) throw new Error('it never came to this')
    await pause(20)
  }
}

/** The helpers that a process has started. */
export function helpersOf(parent: number): string[] {
  return readdirSync('/proc').filter((pid) => {
    try {
      if (!/^\d+$/.test(pid)) return false
      const isChild =
        readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ')[1] === String(parent)
      return isChild && readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('netns-helper.cjs')
    } catch {
      return false
    }
  })
}

/** Starts a process of its own that places a door and stays; see the fixture. `before` stands before the program. */
export function holdDoor(
  t: Test,
  args: readonly string[],
  before: readonly string[] = [],
): ChildProcessByStdio<null, Readable, null> {
  const holder = path.resolve(import.meta.dirname, '../fixtures/door-holder.js')
  const [program = '', ...words] = [...before, process.execPath, holder, ...args]
  const { PATH } = process.env
  const child = spawn(program, words, { env: { PATH }, stdio: ['ignore', 'pipe', 'inherit'] })
  t.teardown(() => child.kill('SIGKILL'))
  return child
}
