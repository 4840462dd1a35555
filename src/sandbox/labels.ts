import type { ProcessIdentity } from './host.ts'

const PREFIX = 'com.github.socialgouv.iterion-egress.'

/** Every container of a run carries it; its value is the run's id. */
export const RUN_LABEL = `${PREFIX}run`

/** The name of a run's container. */
export function containerName(runId: string): string {
  return `iterion-${runId}`
}

/** The labels of everything that belongs to a run: whose it is, in a way that another process can judge. */
export function runLabels(runId: string, owner: ProcessIdentity): Record<string, string> {
  return {
    [RUN_LABEL]: runId,
    [`${PREFIX}boot`]: owner.bootId,
    [`${PREFIX}pid-namespace`]: owner.pidNamespace,
    [`${PREFIX}pid`]: String(owner.pid),
    [`${PREFIX}start`]: owner.startTime,
  }
}

/** The owner that labels name; undefined if they are not whole. */
export function ownerOf(labels: Readonly<Record<string, string>>): ProcessIdentity | undefined {
  const bootId = labels[`${PREFIX}boot`]
  const pidNamespace = labels[`${PREFIX}pid-namespace`]
  const pid = labels[`${PREFIX}pid`]
  const startTime = labels[`${PREFIX}start`]
  if (!bootId || !pidNamespace || !startTime || !pid || !/^\d{1,10}$/.test(pid)) return undefined
  return { bootId, pidNamespace, pid: Number(pid), startTime }
}
