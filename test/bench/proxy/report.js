// The table, and the budgets: ratios within one run.

/** A ratio whose rounds disagree by more than this says little. */
const MOST_SPREAD = 0.15

/** What may not be exceeded: a figure of ours by that of a peer. */
export const BUDGETS = [
  {
    what: 'CPU per CONNECT, by name',
    figure: 'connect-name',
    peer: 'proxy-chain',
    most: 0.85,
    stretch: 0.65,
  },
  {
    what: 'CPU per CONNECT, by name',
    figure: 'connect-name',
    peer: 'squid',
    most: 1.25,
    stretch: 1.0,
  },
  {
    what: 'CPU per GiB, one tunnel, down',
    figure: 'one-down',
    peer: 'squid',
    most: 0.75,
    stretch: 0.6,
  },
  {
    what: 'CPU per GiB, one tunnel, up',
    figure: 'one-up',
    peer: 'squid',
    most: 0.75,
    stretch: 0.6,
  },
  { what: 'CPU per GiB, one tunnel, down', figure: 'one-down', peer: 'sandbox-runtime', most: 0.6 },
  { what: 'CPU per GiB, one tunnel, up', figure: 'one-up', peer: 'sandbox-runtime', most: 0.6 },
  {
    what: 'CPU per GiB, eight tunnels, down',
    figure: 'eight-down',
    peer: 'squid',
    most: 1.0,
    stretch: 0.8,
  },
  {
    what: 'CPU per GiB, eight tunnels, up',
    figure: 'eight-up',
    peer: 'squid',
    most: 1.0,
    stretch: 0.8,
  },
  { what: 'CPU per forwarded GET', figure: 'get', peer: 'proxy-chain', most: 0.75 },
  { what: 'CPU per forwarded GET', figure: 'get', peer: 'squid', stretch: 1.5 },
  {
    what: 'p99 of CONNECT, 64 at a time',
    figure: 'connect-name',
    value: 'p99',
    peer: 'proxy-chain',
    most: 1.0,
  },
  {
    what: 'p99 of CONNECT, 64 at a time',
    figure: 'connect-name',
    value: 'p99',
    peer: 'squid',
    stretch: 1.25,
  },
]

/** The same, of ours by itself. */
export const OWN_BUDGETS = [
  { what: 'a denied CONNECT', peer: 'an allowed one', most: 0.5, stretch: 0.3 },
  { what: 'added to the first byte', peer: 'no proxy', unit: 'ms', most: 0.35, stretch: 0.2 },
  { what: 'an idle tunnel', peer: 'by itself', unit: 'KiB', most: 10, stretch: 8 },
]

/** The same, of what may not be fallen short of. */
export const LEAST_BUDGETS = [
  { what: 'CONNECT by name, two workers, rate', peer: 'one worker', least: 1.5, stretch: 1.8 },
]

/** The ratio of each budget: the median of the rounds, and how far they are apart. */
export function judge({ figures, idle, workers = [] }) {
  const of = (key, peer, value = 'cost') =>
    (figures.find((one) => one.key === key)?.peers[peer] ?? []).map((one) => one[value])
  const failedOf = (values) => values.reduce((sum, one) => sum + one.failed, 0)
  const failedIn = (key, ...peers) => {
    const found = figures.find((one) => one.key === key)?.peers ?? {}
    return peers.reduce((sum, peer) => sum + failedOf(found[peer] ?? []), 0)
  }
  const budgets = []
  // What failed cost little: where something did, the figure says nothing.
  const add = (what, against, ratios, { most, least, stretch, unit = 'x', failed }) => {
    if (ratios.length === 0 || ratios.some((one) => !Number.isFinite(one))) return
    const ratio = median(ratios)
    const spread = (Math.max(...ratios) - Math.min(...ratios)) / ratio
    const isBad = ratio > (most ?? Infinity) || ratio < (least ?? 0)
    const verdict =
      (most ?? least) === undefined ? '' : failed > 0 ? 'FAILED' : isBad ? 'OVER' : 'ok'
    budgets.push({
      what,
      against,
      unit,
      ratio,
      failed,
      spread,
      most,
      least,
      stretch,
      verdict,
      isNoisy: spread > MOST_SPREAD,
    })
  }
  for (const { what, figure, peer, value, most, stretch } of BUDGETS) {
    add(what, peer, quotients(of(figure, 'ours', value), of(figure, peer, value)), {
      most,
      stretch,
      failed: failedIn(figure, 'ours', peer),
    })
  }
  const [denied, first, idling] = OWN_BUDGETS
  const addOwn = ({ what, peer, unit, most, stretch }, ratios, failed, more = '') =>
    add(`${what}${more}`, peer, ratios, { most, stretch, unit, failed })
  const failedConnects = failedIn('connect-name', 'ours')
  addOwn(
    denied,
    quotients(of('denied', 'ours'), of('connect-name', 'ours')),
    failedIn('denied', 'ours') + failedConnects,
  )
  const direct = figures.find(({ key }) => key === 'latency')?.direct.map(({ p50 }) => p50) ?? []
  const added = of('latency', 'ours', 'p50').map((one, i) => one - (direct[i] ?? Number.NaN))
  addOwn(first, added, failedIn('latency', 'ours'))
  for (const { tunnels, peers } of idle) {
    const { ours } = peers
    if (ours) addOwn(idling, [ours.bytes / 1024], ours.failed, `, ${tunnels}`)
  }
  const [one, two] = workers.map(({ values }) => values.map(({ rate }) => rate))
  for (const { what, peer, ...bounds } of LEAST_BUDGETS) {
    const failed = workers.reduce((sum, { values }) => sum + failedOf(values), 0)
    add(what, peer, quotients(two ?? [], one ?? []), { ...bounds, failed })
  }
  return { budgets }
}

/** The table for people. */
export function renderTable(result, { budgets }) {
  const { date, machine, rounds, peers, figures, idle, workers, start } = result
  const lines = [`${machine}; ${date}; medians of ${rounds} interleaved rounds`, '']
  for (const { label, isBytes, direct, peers: found } of figures) {
    lines.push(label)
    const rows = [{ key: 'direct', label: 'no proxy' }, ...peers].flatMap(
      ({ key, label: name }) => {
        const values = key === 'direct' ? direct : (found[key] ?? [])
        return values.length === 0 ? [] : [row(name, key, values, found.ours ?? [], isBytes)]
      },
    )
    lines.push(...rows, '')
  }
  for (const { tunnels, peers: found } of idle) {
    lines.push(`${tunnels} idle tunnels`)
    for (const { key, label } of peers) {
      const one = found[key]
      if (one === undefined) continue
      const kib = (one.bytes / 1024).toFixed(1)
      lines.push(
        `  ${label.padEnd(24)} ${kib.padStart(8)} KiB each  ${one.open} open${failures(one.failed)}`,
      )
    }
    lines.push('')
  }
  if (workers.length > 0) lines.push('CONNECT by name, 64 at a time, ours on both processors')
  for (const { count, values } of workers) {
    const label = count === 1 ? 'one process' : `${count} workers`
    lines.push(row(label, 'workers', values, [], false))
  }
  if (workers.length > 0) lines.push('')
  if (start.length > 0) lines.push('from the start until it listens')
  for (const { label, ms } of start) {
    lines.push(`  ${label.padEnd(24)} ${median(ms).toFixed(0).padStart(8)} ms`)
  }
  lines.push('', 'budgets')
  for (const budget of budgets) {
    const { what, ratio, spread, stretch, verdict, failed, isNoisy, ...bound } = budget
    const isMet = bound.least === undefined ? ratio <= stretch : ratio >= stretch
    const bounds = [
      verdict === ''
        ? ''
        : `${boundOf(bound)}: ${verdict}${failed > 0 ? `, ${failed} failed` : ''}`,
      stretch === undefined ? '' : `stretch ${stretch}: ${isMet ? 'yes' : 'no'}`,
    ]
    lines.push(
      `  ${what.padEnd(34)} ${valueOf(budget).padEnd(24)} ±${Math.round(spread * 50)}%${isNoisy ? ' (noisy)' : ''}  ${bounds.filter((one) => one !== '').join(', ')}`,
    )
  }
  return `${lines.join('\n')}\n`
}

/** What a budget is held against, in words: a ratio to something, or a figure of ours alone. */
export function valueOf({ ratio, unit, against }) {
  const text = ratio.toFixed(2).padStart(6)
  return unit === 'x' ? `${text} x ${against}` : `${text} ${unit}`
}

/** The budgets that a run says nothing of: a peer that they are held against is not here. */
export function unjudged(budgets) {
  return [...BUDGETS, ...OWN_BUDGETS, ...LEAST_BUDGETS].filter(
    ({ what, peer, most, least }) =>
      (most ?? least) !== undefined &&
      !budgets.some((one) => one.against === peer && one.what.startsWith(what)),
  )
}

/** A budget's bound in words. */
export function boundOf({ most, least }) {
  return least === undefined ? `at most ${most}` : `at least ${least}`
}

function row(name, key, values, ours, isBytes) {
  const mid = (value) => median(values.map((one) => one[value]))
  const failed = values.reduce((sum, one) => sum + one.failed, 0)
  const cost =
    key === 'direct'
      ? ''.padStart(14)
      : isBytes
        ? `${mid('cost').toFixed(3)} s/GiB`.padStart(14)
        : `${mid('cost').toFixed(1)} µs`.padStart(14)
  const rate = isBytes
    ? `${mid('rate').toFixed(2)} GiB/s`.padStart(12)
    : `${Math.round(mid('rate'))} /s`.padStart(12)
  const seen = isBytes ? '' : `  p50 ${mid('p50').toFixed(2)} p99 ${mid('p99').toFixed(2)} ms`
  const ratios =
    key === 'direct' || key === 'ours'
      ? []
      : quotients(
          ours.map((one) => one.cost),
          values.map((one) => one.cost),
        )
  const ratio = ratios.length === 0 ? '' : `  ours is ${median(ratios).toFixed(2)} x`
  return `  ${name.padEnd(24)} ${cost} ${rate}${seen}${ratio}${failures(failed)}`
}

const failures = (failed) => (failed > 0 ? `  ${failed} FAILED` : '')

/** Round by round, so that what the machine does is in both. */
function quotients(ours, theirs) {
  return ours.map((one, i) => one / (theirs[i] ?? Number.NaN)).filter((one) => !Number.isNaN(one))
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2
}
