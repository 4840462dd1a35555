/** A source of numbers that a seed repeats exactly. */
export interface Random {
  /** A whole number from 0 up to, not including, the bound. */
  below(bound: number): number
  pick<T>(items: readonly T[]): T
  /** True in so many of a hundred. */
  chance(percent: number): boolean
  /** 32 random bits. */
  word(): number
}

/** A small generator (the mulberry32 step) from a 32-bit seed. */
export function seeded(seed: number): Random {
  let state = seed >>> 0
  const word = () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return (mixed ^ (mixed >>> 14)) >>> 0
  }
  const below = (bound: number) => Math.floor((word() / 2 ** 32) * bound)
  return {
    word,
    below,
    pick: <T>(items: readonly T[]) => {
      if (items.length === 0) throw new TypeError('nothing to pick from')
      const [item] = items.slice(below(items.length)) as [T, ...T[]]
      return item
    },
    chance: (percent) => below(100) < percent,
  }
}

/** The seed of this run: `SEED` from the environment, to repeat a failure, or the given one. */
export function seedOf(usual: number): number {
  const given = process.env['SEED']
  return given === undefined ? usual : Number(given)
}
