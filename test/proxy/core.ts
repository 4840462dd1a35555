import tap from 'tap'
import type { EgressEvent } from '../../src/events/event.ts'
import { createAuthenticator } from '../../src/proxy/authenticate.ts'
import {
  admit,
  isRefusal,
  type ProxyCore,
  recordAllowed,
  recordInternalError,
  recordRefusal,
} from '../../src/proxy/core.ts'
import { DEFAULT_LIMITS } from '../../src/proxy/limits.ts'
import { refusal } from '../../src/proxy/refuse.ts'
import { readForward } from '../../src/proxy/request-head.ts'
import { Registry } from '../../src/proxy/registry.ts'
import { Slots } from '../../src/proxy/slots.ts'
import { incoming } from '../support/incoming.ts'
import { NOW, targetOf } from '../support/policy-of.ts'
import { policyWith } from '../support/proxy.ts'

const TOKEN = 'x'.repeat(64)

function coreWith(parts: Partial<ProxyCore> = {}) {
  const events: EgressEvent[] = []
  const core: ProxyCore = {
    dialer: { dial: async () => Promise.reject(new Error('nothing is dialled here')) },
    authenticator: createAuthenticator(TOKEN),
    names: undefined,
    counters: { allowed: 0, denied: {}, bytesUp: 0, bytesDown: 0 },
    tunnels: new Registry(),
    slots: new Slots(),
    audit: false,
    pseudonym: 'me',
    now: () => NOW,
    emit: (event) => void events.push(event),
    policy: policyWith({ rules: ['allowed.test'], quiet: ['**.quiet.test'] }),
    generation: 7,
    limits: DEFAULT_LIMITS,
    isDraining: false,
    ...parts,
  }
  return { core, events }
}

interface Asked {
  readonly core?: Partial<ProxyCore>
  readonly url?: string
  readonly host?: string
  readonly token?: string
  readonly isTrusted?: boolean
}

function ask(parts: Asked) {
  const { url = 'http://allowed.test/', host = 'allowed.test', token = TOKEN } = parts
  const fields = [`Host: ${host}`, `Proxy-Authorization: Bearer ${token}`]
  const request = incoming({ url, fields })
  const { core } = coreWith(parts.core)
  const options = { via: 'forward', isTrusted: parts.isTrusted === true } as const
  return admit(core, request, { ...options, read: () => readForward(request) })
}

void tap.test('the checks, in their order: each one hides those behind it', async (t) => {
  const rows: [reason: string, parts: Asked][] = [
    ['draining', { core: { isDraining: true }, token: 'no', url: '/', host: 'x' }],
    ['auth', { token: 'no', url: `/${'x'.repeat(20_000)}` }],
    ['auth', { token: 'no', url: 'http://evil.test/' }],
    ['bad-target', { url: '/' }],
    ['host-mismatch', { url: 'http://evil.test/' }],
    ['no-rule', { url: 'http://evil.test/', host: 'evil.test' }],
    ['port', { url: 'http://allowed.test:22/', host: 'allowed.test:22' }],
  ]
  for (const [reason, parts] of rows) {
    const result = ask(parts)
    t.equal(isRefusal(result) && result.reason, reason)
  }
  const admitted = ask({})
  t.match(admitted, { kind: 'admitted', path: '/', generation: 7, decision: { reason: 'rule' } })
  t.notOk(isRefusal(admitted))
})

void tap.test('a head that is too long is 431 before the policy is asked', async (t) => {
  const result = ask({ url: `http://evil.test/${'x'.repeat(20_000)}`, host: 'evil.test' })
  t.match(result, { reason: 'bad-target', status: 431 })
})

void tap.test('no token is asked for inside a tunnel, nor where there is none', async (t) => {
  t.notOk(isRefusal(ask({ token: 'no', isTrusted: true })))
  t.notOk(isRefusal(ask({ token: 'no', core: { authenticator: undefined } })))
})

void tap.test('a refusal is counted and recorded, with what is known about it', async (t) => {
  const { core, events } = coreWith()
  const target = targetOf('evil.test')
  recordRefusal(core, refusal({ reason: 'no-rule', detail: 'why', target, via: 'connect' }))
  const more = { address: '10.0.0.1', sni: 'b.test' }
  recordRefusal(core, {
    ...refusal({ reason: 'sni', detail: 'x', target, via: 'connect' }),
    ...more,
  })
  recordRefusal(core, refusal({ reason: 'sni', detail: 'x', target: undefined, via: 'forward' }))
  t.strictSame(core.counters.denied, { 'no-rule': 1, sni: 2 })
  t.match(events, [
    {
      type: 'network_blocked',
      data: { host: 'evil.test', port: 443, generation: 7 },
      quiet: false,
    },
    { data: { reason: 'sni', ...more } },
    { data: { host: '', port: 0, via: 'forward' } },
  ])
})

void tap.test('quiet is what the policy lists; an address never is', async (t) => {
  const { core, events } = coreWith()
  for (const text of ['a.quiet.test', 'quiet.test', '192.0.2.1']) {
    const target = targetOf(text)
    recordRefusal(core, refusal({ reason: 'no-rule', detail: '', target, via: 'connect' }))
  }
  t.strictSame(
    events.map(({ quiet }) => quiet),
    [true, false, false],
  )
})

void tap.test('what is allowed is always counted and only recorded for an audit', async (t) => {
  for (const audit of [false, true]) {
    const { core, events } = coreWith({ audit })
    const admitted = ask({})
    if (isRefusal(admitted)) throw new Error(admitted.reason)
    recordAllowed(core, admitted, '192.0.2.1')
    recordAllowed(core, admitted, undefined)
    t.equal(core.counters.allowed, 2)
    t.equal(events.length, audit ? 2 : 0)
    const data = { host: 'allowed.test', port: 80, rule: 'allowed.test', origin: String }
    if (audit) t.match(events[0], { type: 'network_allowed', data })
  }
})

void tap.test('a fault of our own is recorded, whatever was thrown, and cut', async (t) => {
  const { core, events } = coreWith()
  for (const thrown of [new Error('oops'), 'oops', { toString: () => 'oops' }]) {
    recordInternalError(core, thrown)
  }
  recordInternalError(core, 'x'.repeat(100_000))
  for (const event of events.slice(0, 3)) t.match(event, { data: { message: /oops/ } })
  t.match(events[3], { data: { message: /^x{4096}$/ } })
})
