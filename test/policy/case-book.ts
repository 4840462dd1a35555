import { readFileSync } from 'node:fs'
import tap from 'tap'
import { classifyIp } from '../../src/policy/address-kind.ts'
import type { IpAddress } from '../../src/policy/address.ts'
import { decide, type Decision } from '../../src/policy/decide.ts'
import { parsePolicy } from '../../src/policy/parse.ts'
import { compilePolicy } from '../../src/policy/compile.ts'
import type { Mode } from '../../src/policy/policy.ts'
import { isBadTarget, parseAuthority, parseTarget } from '../../src/policy/target.ts'
import { type LocalAddresses, vetAddress } from '../../src/policy/vet.ts'
import { inShort, problemsOf } from '../support/problems-of.ts'
import { NOW, policyOf, targetOf, type Written } from '../support/policy-of.ts'

// The case book at the level of the API: reports about other proxies, each as the kind it stands for.

/** Where our answer is another than the case asks for, and why. */
const NOT_AS_WRITTEN: Readonly<Record<string, string>> = {
  'C-08':
    'a numeric spelling that every reader takes alike folds to its bytes and is denied as that address; only a leading zero is malformed',
  'C-10': 'the bare 0 folds to 0.0.0.0 and is denied as that address',
  'C-23':
    'a star inside a name or a label is allowed where the pattern is no wider than a public suffix',
  'C-27': 'a rule over every name has to say wide: true',
  'C-32': 'patterns as wide as a public suffix load with wide: true',
  'S-20': 'a name that resolves to a private address has to say private: true',
}

/** A text in ASCII, for titles. */
function plain(text: string): string {
  return JSON.stringify(text).replace(
    /[^ -~]/g,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`,
  )
}

interface Decided {
  readonly id: string
  readonly behaviour: string
  readonly mode: Mode
  readonly rules: readonly Written[]
  /** Targets by what is said of them: verdict and reason. */
  readonly checks: Readonly<Record<string, readonly string[]>>
}

interface Refused {
  readonly id: string
  readonly behaviour: string
  /** What the message of each rule matches. */
  readonly reason: string
  readonly rules: readonly string[]
}

interface Classified {
  readonly id: string
  readonly behaviour: string
  readonly closed: readonly string[]
  readonly open: readonly string[]
}

interface CaseBook {
  readonly decisions: readonly Decided[]
  readonly refused: readonly Refused[]
  readonly addresses: readonly Classified[]
}

const BOOK = JSON.parse(
  readFileSync(new URL('../fixtures/cases.json', import.meta.url), 'utf8'),
) as CaseBook

const seen = new Set<string>()
for (const { id, behaviour, mode, rules, checks } of BOOK.decisions) {
  seen.add(id)
  void tap.test(`${id}: ${behaviour} (${mode})`, async (t) => {
    const policy = policyOf(rules, mode)
    for (const [expected, targets] of Object.entries(checks)) {
      for (const target of targets) {
        const { verdict, reason } = decide(policy, parseTarget(target), NOW)
        t.equal(`${verdict} ${reason}`, expected, plain(target))
      }
    }
  })
}

void tap.test('C-29: the floor of names holds in allowlist and denylist mode too', async (t) => {
  for (const policy of [
    policyOf([{ host: '**', wide: true }]),
    policyOf(['!evil.test'], 'denylist'),
  ]) {
    for (const name of ['localhost', 'host.docker.internal', 'kubernetes.default.svc']) {
      t.match(
        decide(policy, targetOf(name), NOW),
        { verdict: 'deny', reason: 'special-address' },
        name,
      )
    }
  }
})

void tap.test('C-18, H-26: the same holds for a CONNECT and for SOCKS', async (t) => {
  for (const via of ['connect', 'socks', 'transparent'] as const) {
    for (const text of [
      '.allowed.test:443',
      'a..test:443',
      'a\u0000.test:443',
      '[::1%25lo]:443',
      'u@a.test:443',
      'a.test',
      'a/b:443',
    ]) {
      t.ok(isBadTarget(parseAuthority(text, { scheme: 'tcp', via })), `${via} ${plain(text)}`)
    }
  }
})

for (const { id, behaviour, rules, reason } of BOOK.refused) {
  seen.add(id)
  void tap.test(`${id}: ${behaviour} is refused, every one with its text and reason`, async (t) => {
    const text = `rules: ${JSON.stringify(rules)}\n`
    const problems = problemsOf(() => parsePolicy(text, 'p.yaml'))
    for (const [i, rule] of rules.entries()) {
      const found = problems.filter(({ at }) => at?.column === columnOf(rules, i))
      t.equal(found.length, 1, `${JSON.stringify(rule)}: ${found.map(inShort).join(' | ')}`)
      const message = found[0]?.message ?? ''
      t.match(message, new RegExp(reason), JSON.stringify(rule))
      if (!message.includes('is no port'))
        t.ok(message.includes(JSON.stringify(rule)), 'the rule is shown as JSON')
    }
  })
}

/** Where an item begins in `rules: [...]` of one line. */
function columnOf(items: readonly unknown[], index: number): number {
  const before = items.slice(0, index).map((item) => JSON.stringify(item).length + 1)
  return 'rules: ['.length + 1 + before.reduce((sum, length) => sum + length, 0)
}

void tap.test(
  'C-21, C-23, C-32: what is refused in a rule is refused as an exclusion only where it has no meaning',
  async (t) => {
    t.strictSame(
      policyOf(['!**.com', '!*', '!*allowed.test'], 'denylist').rules.length,
      3,
      'an exclusion may be wide',
    )
    t.equal(policyOf([{ host: '**.com', wide: true }]).rules.length, 1)
  },
)

void tap.test(
  'E-10: the correction strips the scheme once, and keeps port and exclusion',
  async (t) => {
    const rules = [
      'https://api.allowed.test',
      'http://api.allowed.test:8080/v1',
      '!https://api.allowed.test/',
    ]
    const problems = problemsOf(() => parsePolicy(`rules: ${JSON.stringify(rules)}`, 'p.yaml'))
    t.strictSame(
      problems.map(({ correction }) => correction),
      ['"api.allowed.test"', '"api.allowed.test:8080"', '"!api.allowed.test"'],
    )
    t.match(
      decide(policyOf(['api.allowed.test']), parseTarget('https://https://api.allowed.test'), NOW),
      { reason: 'bad-target' },
    )
  },
)

function ip(text: string): IpAddress {
  const { host } = targetOf(text.includes(':') ? `[${text}]` : text)
  if (host.kind !== 'ip') throw new Error(text)
  return host.ip
}

for (const { id, behaviour, closed, open } of BOOK.addresses) {
  seen.add(id)
  void tap.test(`${id}: ${behaviour}`, async (t) => {
    const policy = policyOf([], 'open')
    const local: LocalAddresses = { isOwn: () => false, isListener: () => false }
    const decision: Decision = { verdict: 'allow', reason: 'mode-default' }
    for (const text of [...closed, ...open]) {
      const request = { ip: ip(text), port: 443, decision, given: false, nowMs: NOW }
      const isClosed = closed.includes(text)
      t.equal(classifyIp(ip(text)).kind !== 'public', isClosed, `kind of ${text}`)
      t.equal(
        vetAddress(policy, local, request),
        isClosed ? 'special-address' : undefined,
        `as an answer: ${text}`,
      )
      const target = targetOf(text.includes(':') ? `[${text}]` : text)
      t.equal(
        decide(policy, target, NOW).verdict,
        isClosed ? 'deny' : 'allow',
        `as a target: ${text}`,
      )
    }
  })
}

void tap.test('S-08: the proxy itself is never reached, whatever admits its range', async (t) => {
  seen.add('S-08')
  const local: LocalAddresses = {
    isOwn: ({ words }) => words.join() === ip('192.168.5.1').words.join(),
    isListener: (address, port) =>
      port === 3128 &&
      ['127.0.0.1', '192.168.5.1'].some((own) => ip(own).words.join() === address.words.join()),
  }
  for (const mode of ['open', 'allowlist'] as const) {
    const rules: Written[] = [
      '127.0.0.0/8:*',
      '192.168.0.0/16:*',
      '127.0.0.1:3128',
      '192.168.5.1:3128',
      { host: 'selfname.test', ports: [3128, 22], private: true },
    ]
    const policy = policyOf(rules, mode)
    const vet = (address: string, port: number, given = false) =>
      vetAddress(policy, local, {
        ip: ip(address),
        port,
        decision: decide(policy, targetOf(`selfname.test:${port}`), NOW),
        given,
        nowMs: NOW,
      })
    t.equal(vet('127.0.0.1', 3128), 'loop')
    t.equal(vet('192.168.5.1', 3128), 'loop')
    t.equal(vet('192.168.5.1', 3128, true), 'loop', 'even if the operator gave the address')
    t.equal(vet('192.168.5.1', 22), 'special-address', 'our own address opens by exact rule alone')
  }
  t.match(decide(policyOf([], 'open'), targetOf('127.0.0.1:3128'), NOW), {
    verdict: 'deny',
    reason: 'special-address',
  })
})

void tap.test(
  'S-01, S-18, S-20: the floor holds behind names, and opens for the named port alone',
  async (t) => {
    const local: LocalAddresses = { isOwn: () => false, isListener: () => false }
    const policy = policyOf([
      { host: 'host.docker.internal:11434', private: true },
      'plain.test:11434',
    ])
    const reach = (name: string, address: string) => {
      const target = targetOf(name)
      const decision = decide(policy, target, NOW)
      return decision.verdict === 'deny'
        ? decision.reason
        : vetAddress(policy, local, {
            ip: ip(address),
            port: target.port,
            decision,
            given: false,
            nowMs: NOW,
          })
    }
    t.equal(reach('host.docker.internal:11434', '172.17.0.1'), undefined)
    t.equal(reach('host.docker.internal:5432', '172.17.0.1'), 'special-address')
    t.equal(reach('172.17.0.1:11434', '172.17.0.1'), 'special-address')
    for (const address of ['127.0.0.1', '::1', 'fe80::1', '100.64.0.1'])
      t.equal(reach('host.docker.internal:11434', address), 'special-address', address)
    t.equal(reach('host.docker.internal:11434', '169.254.169.254'), 'metadata-address')
    for (const address of ['10.0.0.5', '172.17.0.1', '192.168.1.1', 'fd00::1'])
      t.equal(reach('plain.test:11434', address), 'special-address', address)
    for (const mode of ['denylist', 'open'] as const) {
      const open = policyOf(['!evil.test'], mode)
      const decision = decide(open, targetOf('rebind.test:80'), NOW)
      const request = { ip: ip('169.254.169.254'), port: 80, decision, given: false, nowMs: NOW }
      t.equal(vetAddress(open, local, request), 'metadata-address', mode)
    }
  },
)

void tap.test('cases that have another answer here say why', async (t) => {
  for (const [id, why] of Object.entries(NOT_AS_WRITTEN)) {
    t.ok(why.length > 20, id)
    if (id !== 'S-20') t.ok(seen.has(id), `${id} is tried`)
  }
  t.match(decide(compilePolicy({ mode: 'allowlist', rules: [] }), parseTarget('x.test'), NOW), {
    reason: 'no-rule',
  })
})
