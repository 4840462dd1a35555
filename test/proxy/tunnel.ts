import tap from 'tap'
import { dialRefusal } from '../../src/proxy/tunnel.ts'
import { renderRefusal } from '../../src/proxy/refuse.ts'
import { targetOf } from '../support/policy-of.ts'

const TABLE: readonly (readonly [address: string, suggestion: string | undefined])[] = [
  ['10.0.0.5', '{ host: "a.test", ports: [443], private: true }'],
  ['fd00::1', '{ host: "a.test", ports: [443], private: true }'],
  ['127.0.0.1', undefined],
  ['169.254.1.1', undefined],
  ['100.64.0.1', undefined],
  ['::1', undefined],
]

for (const [address, suggestion] of TABLE) {
  const words = suggestion === undefined ? 'no rule' : 'a rule by name'
  void tap.test(`a name that resolves to ${address} is offered ${words}`, async (t) => {
    const decision = { verdict: 'allow', reason: 'rule' } as const
    const refused = dialRefusal(
      { kind: 'admitted', target: targetOf('a.test:443'), path: '', decision, generation: 1 },
      {
        kind: 'failed',
        reason: 'special-address',
        detail: 'the address is not public',
        timedOut: false,
        address,
      },
    )
    t.equal(refused.status, 403)
    const { body } = renderRefusal(refused, undefined)
    if (suggestion === undefined) t.notMatch(body, /would allow it/)
    else t.ok(body.includes(`a rule that would allow it: ${suggestion}`), body)
  })
}
