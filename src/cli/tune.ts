import { getHeapSpaceStatistics, setFlagsFromString } from 'node:v8'

/** How large the space for young objects may grow, in bytes: both of its halves. V8 lets it grow to 32 MiB. */
const YOUNG_BYTES = 8 * 1024 * 1024
/** How often its size is looked at, in milliseconds. */
const LOOK_MS = 500

/**
 * Says to V8 that this process is a proxy.
 *
 * V8 watches which objects live long, and makes such ones where they are only looked at by its large collections; but a
 * connection's objects live for as long as a connection does, and placed there they keep everything of it alive. Without
 * that guess a tunnel costs up to a seventh less.
 *
 * It also gives a process that makes many objects more and more room for young ones. Collections cost no less by it here,
 * and with 5,000 open tunnels it was a quarter of what they weigh. V8 has no flag for that limit that can still be set when
 * it runs, but one for how fast that room grows.
 */
export function tuneForConnections(): void {
  setFlagsFromString('--no-allocation-site-pretenuring')
  let factor = 2
  const look = () => {
    const young = getHeapSpaceStatistics().find(({ space_name: name }) => name === 'new_space')
    // V8 takes room back from a process that rests: then it may grow again.
    const wanted = young && young.space_size >= YOUNG_BYTES ? 1 : 2
    if (wanted !== factor) setFlagsFromString(`--semi-space-growth-factor=${wanted}`)
    factor = wanted
  }
  setInterval(look, LOOK_MS).unref()
}
