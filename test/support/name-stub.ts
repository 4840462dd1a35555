import { createNameStub, type NameStub } from '../../src/door/name-stub.ts'
import { SyntheticNames } from '../../src/door/synthetic-names.ts'
import { type AnswerParts, queryOf, type QueryParts, readAnswer } from './dns.ts'

const RANGE = { first: { family: 4, words: [0x7f400000] }, bits: 10 } as const

/** The names that a policy of tests allows: `api.example.test`, all below `wild.test`, and `registry`, `in-addr.arpa`. */
const ALLOWED = /^(?:api\.example\.test|registry|.*\.wild\.test|a{63}.*|.*\.in-addr\.arpa)$/i

/** A stub of tests. */
export interface OpenedStub {
  readonly stub: NameStub
  readonly names: SyntheticNames
  /** The names that `onDenied` was told. */
  readonly denied: readonly string[]
  /** The names that `mayReach` was asked for. */
  readonly asked: readonly string[]
  readonly clock: { now: number }
  readonly ask: (parts: QueryParts) => AnswerParts
}

/** Makes a stub resolver over a policy of tests, in a sandbox that is called `box`. */
export function openStub(limits: { maxNames?: number } = {}): OpenedStub {
  const clock = { now: 0 }
  const now = () => clock.now
  const names = new SyntheticNames(RANGE, now, limits)
  const denied: string[] = []
  const asked: string[] = []
  const stub = createNameStub({
    names,
    mayReach: ({ name }) => {
      asked.push(name)
      return ALLOWED.test(name)
    },
    onDenied: (name) => denied.push(name),
    now,
    hostname: 'Box',
  })
  const ask = (parts: QueryParts) => readAnswer(stub.answerDatagram(queryOf(parts)))
  return { stub, names, denied, asked, clock, ask }
}
