import tap from 'tap'
import { WrapAudit } from '../../src/cli/wrap-audit.ts'
import { NOW, policyOf } from '../support/policy-of.ts'

const POLICY = policyOf(['allowed.test'])

function blocked(host: string, port: number, reason: string) {
  const data = { host, port, reason, via: 'connect', generation: 1 } as const
  return { type: 'network_blocked', data } as const
}

void tap.test('what was denied is counted, with the rule that would allow it', async (t) => {
  const audit = new WrapAudit()
  const table: readonly (readonly [string, number, string, string | undefined])[] = [
    ['denied.test', 443, 'no-rule', '"denied.test:443"'],
    ['looked-up.test', 0, 'no-rule', '"looked-up.test"'],
    ['allowed.test', 22, 'port', '"allowed.test:22"'],
    ['2001:db8::1', 443, 'ip-literal', '"[2001:db8::1]:443"'],
    ['allowed.test', 443, 'sni', undefined],
    ['\\x00', 0, 'bad-target', undefined],
  ]
  for (const [host, port, reason] of table) audit.record(blocked(host, port, reason))
  audit.record(blocked('denied.test', 443, 'no-rule'))
  const { lines, rules } = audit.report(POLICY, NOW)
  t.equal(lines.length, table.length)
  t.match(lines[0], { host: 'denied.test', times: 2 })
  t.strictSame(
    rules,
    table.flatMap(([, , , rule]) => rule ?? []).map((rule) => JSON.parse(rule) as string),
  )
  t.notOk(lines.some(({ port }) => port === 0))
  t.match(audit.render(POLICY, NOW), '  - "[2001:db8::1]:443"\n')
  t.match(audit.render(POLICY, NOW), /denied +looked-up\.test +- +1 +no-rule\n/)
})

void tap.test('a tunnel is counted once, whatever is asked inside it', async (t) => {
  const audit = new WrapAudit()
  const network = { host: 'allowed.test', port: 80, generation: 1, rule: 'allowed.test' }
  for (const via of ['transparent', 'connect'] as const) {
    audit.record({ type: 'network_allowed', data: { ...network, via } })
    for (let i = 0; i < 3; i++) {
      const data = { ...network, via: 'connect', in_tunnel: true } as const
      audit.record({ type: 'network_allowed', data })
    }
  }
  audit.record({ type: 'network_allowed', data: { ...network, via: 'forward' } })
  t.match(audit.report(POLICY, NOW).lines, [{ verdict: 'allowed', times: 3 }])
})

void tap.test('it is bounded, and says so', async (t) => {
  const audit = new WrapAudit()
  for (let i = 0; i < 1_005; i++) audit.record(blocked(`n${i}.test`, 443, 'no-rule'))
  t.equal(audit.report(POLICY, NOW).lines.length, 1_000)
  t.match(audit.render(POLICY, NOW), /\nand 5 more\n/)
})

void tap.test('nothing asked is said in words', async (t) => {
  const audit = new WrapAudit()
  audit.record({ type: 'internal_error', data: { message: 'x' } })
  t.match(audit.render(POLICY, NOW), /^iterion-egress: nothing was asked of the proxy .*\n$/)
})

void tap.test('nothing is proposed that would be for nobody, or twice', async (t) => {
  const audit = new WrapAudit()
  for (const host of ['127.0.0.1', '127.64.9.9', '::1']) {
    audit.record(blocked(host, 443, 'special-address'))
    audit.record(blocked(host, 8080, 'no-rule'))
  }
  audit.record(blocked('both.test', 443, 'no-rule'))
  audit.record(blocked('both.test', 0, 'no-rule'))
  audit.record(blocked('both.test', 8443, 'no-rule'))
  const { rules, inside } = audit.report(POLICY, NOW)
  t.strictSame({ rules, inside }, { rules: ['both.test', 'both.test:8443'], inside: [] })
})

void tap.test('what is inside is set apart, and no cloud is opened', async (t) => {
  const audit = new WrapAudit()
  audit.record(blocked('denied.test', 443, 'no-rule'))
  audit.record(blocked('10.0.0.1', 80, 'special-address'))
  audit.record(blocked('allowed.test', 80, 'special-address'))
  audit.record(blocked('169.254.169.254', 80, 'metadata-address'))
  audit.record(blocked('metadata.google.internal', 0, 'metadata-address'))
  const { rules, inside } = audit.report(POLICY, NOW)
  t.strictSame(rules, ['denied.test:443'])
  t.strictSame(inside, ['10.0.0.1:80', '{ host: "allowed.test", ports: [80], private: true }'])
  const text = audit.render(POLICY, NOW)
  t.match(
    text,
    /would allow what was denied:\n {2}- "denied\.test:443"\nand these would open addresses/,
  )
  t.notMatch(text, /- .*(?:169\.254|metadata\.google)/)
})
