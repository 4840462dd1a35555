import type { EgressProxyStats } from '../proxy/egress-proxy.ts'

/** Counters and levels of all workers together. */
export interface WorkersStats extends EgressProxyStats {
  readonly workers: number
  /** Workers that did not answer in time: what they have is missing in the sums. */
  readonly silent?: number
}

/** Adds up what workers say of themselves. What is no number is the same in all of them. */
export function sumStats(workers: number, answers: readonly EgressProxyStats[]): WorkersStats {
  const sum = (of: (stats: EgressProxyStats) => number) =>
    answers.reduce((all, one) => all + of(one), 0)
  const denied: Partial<Record<keyof EgressProxyStats['denied'], number>> = {}
  for (const answer of answers) {
    for (const [key, count] of Object.entries(answer.denied)) {
      const reason = key as keyof EgressProxyStats['denied']
      denied[reason] = (denied[reason] ?? 0) + count
    }
  }
  const silent = workers - answers.length
  return {
    workers,
    ...(silent > 0 && { silent }),
    generation: answers[0]?.generation ?? 0,
    connections: sum(({ connections }) => connections),
    tunnels: sum(({ tunnels }) => tunnels),
    lookups: sum(({ lookups }) => lookups),
    relay: answers[0]?.relay ?? { kind: 'streams', why: 'no worker answered' },
    allowed: sum(({ allowed }) => allowed),
    denied,
    bytesUp: sum(({ bytesUp }) => bytesUp),
    bytesDown: sum(({ bytesDown }) => bytesDown),
  }
}
