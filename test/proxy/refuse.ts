import { type IncomingMessage, ServerResponse } from 'node:http'
import tap from 'tap'
import { decide, type DenyReason } from '../../src/policy/decide.ts'
import { parseAuthority } from '../../src/policy/target.ts'
import {
  closeWithin,
  denialSentence,
  describeHost,
  forgetRest,
  refusal,
  refuseOnResponse,
  refuseOnSocket,
  renderRefusal,
} from '../../src/proxy/refuse.ts'
import { requestOn } from '../support/incoming.ts'
import { NOW, policyOf, targetOf } from '../support/policy-of.ts'
import { valuesOf } from '../support/http-answer.ts'
import { until } from '../support/proxy.ts'
import { rawClientOf } from '../support/raw-client.ts'
import { openSocketPair } from '../support/socket-pair.ts'

const NO_RULE = refusal({
  reason: 'no-rule',
  detail: 'no rule allows evil.test:443',
  target: targetOf('evil.test'),
  via: 'connect',
  decision: { verdict: 'deny', reason: 'no-rule' },
})

/** What a refusal is made of, besides its reason. */
const BLANK = { detail: 'x', target: undefined, via: 'forward' } as const

const STATUSES: Record<DenyReason, number> = {
  'bad-target': 400,
  'host-mismatch': 400,
  'no-rule': 403,
  excluded: 403,
  port: 403,
  expired: 403,
  'ip-literal': 403,
  'special-address': 403,
  'metadata-address': 403,
  'address-excluded': 403,
  sni: 403,
  'not-tls': 403,
  auth: 407,
  limit: 503,
  draining: 503,
  internal: 500,
  unresolvable: 502,
  dial: 502,
  loop: 508,
}

/** A status line or a field that can stand in a head. */
const VISIBLE = /^[ -~]*$/

function header({ headers }: { headers: readonly (readonly [string, string])[] }, name: string) {
  return headers.filter(([one]) => one === name).map(([, value]) => value)
}

void tap.test('every reason has its status, a visible phrase and its fields', async (t) => {
  for (const [reason, status] of Object.entries(STATUSES) as [DenyReason, number][]) {
    const made = refusal({ reason, detail: 'why', target: undefined, via: 'forward' })
    t.equal(made.status, status, reason)
    for (const accept of [undefined, 'application/json']) {
      const message = renderRefusal(made, accept)
      t.match(message.phrase, VISIBLE)
      t.strictSame(header(message, 'X-Iterion-Reason'), [reason])
      t.match(header(message, 'Proxy-Status')[0], /^iterion-egress; error=[a-z_]+; details="why"$/)
      t.strictSame(header(message, 'Content-Length'), [String(Buffer.byteLength(message.body))])
      t.equal(header(message, 'Proxy-Authenticate').length, status === 407 ? 1 : 0, reason)
      t.equal(header(message, 'Retry-After').length, status === 503 ? 1 : 0, reason)
    }
  }
})

void tap.test('a status that is given goes before the one of the reason', async (t) => {
  const made = (reason: DenyReason, status: number) =>
    renderRefusal(refusal({ reason, detail: 'x', status, target: undefined, via: 'forward' }), '')
  t.match(header(made('limit', 429), 'Retry-After'), ['1'])
  t.match(header(made('unresolvable', 504), 'Proxy-Status')[0], 'error=dns_timeout')
  t.match(header(made('dial', 504), 'Proxy-Status')[0], 'error=connection_timeout')
  t.match(header(made('dial', 502), 'Proxy-Status')[0], 'error=destination_unavailable')
})

void tap.test('a text body says why and ends with the rule that would allow it', async (t) => {
  const { phrase, body } = renderRefusal(NO_RULE, 'text/html, */*')
  t.equal(phrase, 'egress denied: no rule allows evil.test:443')
  t.match(body, phrase)
  t.match(body, 'reason: no-rule\n')
  t.match(body, /evil\.test\S*\n$/)
})

void tap.test('JSON for those who ask for it', async (t) => {
  for (const accept of [
    'application/json',
    'text/plain, Application/JSON;q=0.5',
    'application/problem+json',
    'application/vnd.x.v3+json',
  ]) {
    const message = renderRefusal(NO_RULE, accept)
    t.strictSame(header(message, 'Content-Type'), ['application/json'], accept)
    t.match(JSON.parse(message.body), {
      error: message.phrase,
      reason: 'no-rule',
      host: 'evil.test',
      port: 443,
      rule: /evil\.test/,
    })
  }
  for (const accept of [
    undefined,
    '',
    '*/*',
    'text/json',
    'application/jsonx',
    'xapplication/js',
  ]) {
    t.match(header(renderRefusal(NO_RULE, accept), 'Content-Type')[0], 'text/plain', accept ?? '')
  }
})

void tap.test('a refusal never shows the rules there are', async (t) => {
  const policy = policyOf(['secret.corp.test', '!secret.evil.test', { host: 'x.test', ports: [8] }])
  for (const text of ['evil.test', 'secret.evil.test', 'x.test:9']) {
    const target = targetOf(text)
    const decision = decide(policy, target, NOW)
    if (decision.verdict === 'allow') throw new Error(text)
    const detail = denialSentence(decision, target)
    const made = refusal({ reason: decision.reason, detail, target, via: 'connect', decision })
    for (const accept of [undefined, 'application/json']) {
      const shown = JSON.stringify(renderRefusal(made, accept))
      t.notMatch(shown, 'secret.corp')
      t.notMatch(shown, /x\.test:8\b/)
      t.notMatch(shown, 'policy.yaml')
    }
  }
})

void tap.test('bytes of strangers become harmless, and long ones short', async (t) => {
  const odd = 'a\r\nX-Evil: 1\0\x1b[31m"\\\u202e😀é'
  const target = parseAuthority(`${odd}${'x'.repeat(5_000)}`, { scheme: 'tcp', via: 'connect' })
  const made = refusal({ reason: 'bad-target', detail: odd.repeat(100), target, via: 'connect' })
  for (const accept of [undefined, 'application/json']) {
    const message = renderRefusal(made, accept)
    t.match(message.phrase, VISIBLE)
    t.ok(message.phrase.length <= 200)
    for (const [name, value] of message.headers) t.match(value, VISIBLE, name)
    const details = /; details="((?:[^"\\]|\\["\\])*)"$/.exec(
      header(message, 'Proxy-Status')[0] ?? '',
    )
    t.ok(details, 'the details are one string')
    t.ok(message.body.length < 10_000)
  }
  const { host, port } = describeHost(target)
  t.match(host, VISIBLE)
  t.match(host, /^a\\u\{d\}\\u\{a\}X-Evil/)
  t.ok(host.length <= 256)
  t.equal(port, 0)
  t.strictSame(describeHost(undefined), { host: '', port: 0 })
  t.strictSame(describeHost(targetOf('[::1]:22')), { host: '[::1]', port: 22 })
})

void tap.test('a sentence for every denial of a policy', async (t) => {
  const target = targetOf('evil.test')
  const reasons = Object.keys(STATUSES) as DenyReason[]
  for (const reason of reasons) {
    t.match(denialSentence({ verdict: 'deny', reason }, target), 'evil.test', reason)
  }
  const bad = parseAuthority('x', { scheme: 'tcp', via: 'connect' })
  t.equal(
    denialSentence({ verdict: 'deny', reason: 'bad-target' }, bad),
    'bad target: the port is missing',
  )
})

void tap.test('on a socket: one whole answer, then the end, whatever still comes', async (t) => {
  const [near, far] = await openSocketPair(t)
  const client = rawClientOf(far)
  refuseOnSocket(near, NO_RULE)
  client.send('more and more')
  const answer = await client.answer()
  t.equal(answer.status, 403)
  t.strictSame(valuesOf(answer, 'connection'), ['close'])
  await client.closed()
  await until('the socket is gone', () => near.destroyed)
})

void tap.test('on a socket: an answer to HEAD has no body', async (t) => {
  const [near, far] = await openSocketPair(t)
  const client = rawClientOf(far)
  refuseOnSocket(near, NO_RULE, undefined, 'HEAD')
  await client.closed()
  t.match(client.text, /^HTTP\/1\.1 403 .*\r\n\r\n$/s)
  t.match(client.text, /Content-Length: [1-9]/)
})

void tap.test(
  'on a socket that has ended already nothing is written and nothing hangs',
  async (t) => {
    const [near, far] = await openSocketPair(t)
    const client = rawClientOf(far)
    near.end('bye')
    t.doesNotThrow(() => refuseOnSocket(near, NO_RULE))
    await client.closed()
    t.equal(client.text, 'bye')
    await until('the socket is gone', () => near.destroyed)
    t.doesNotThrow(() => refuseOnSocket(near, NO_RULE), 'nor on one that is gone')
  },
)

void tap.test('a peer that neither reads nor goes is closed at the deadline', async (t) => {
  const [near] = await openSocketPair(t)
  near.write('x'.repeat(8_000_000))
  near.end()
  closeWithin(near, 50)
  await until('it is closed', () => near.destroyed)
})

void tap.test('a peer that goes on sending is closed after a bound', async (t) => {
  const [near, far] = await openSocketPair(t)
  closeWithin(near, 60_000)
  far.resume()
  far.write(Buffer.alloc(3_000_000))
  await until('it is closed', () => near.destroyed)
  t.ok(near.bytesRead < 3_000_000)
})

void tap.test('a peer that ends gets what was written, and the end comes at once', async (t) => {
  const [near, far] = await openSocketPair(t)
  const client = rawClientOf(far)
  near.end('y'.repeat(2_000_000))
  closeWithin(near, 60_000)
  client.end()
  await client.until(2_000_000)
  await until('it is closed', () => near.destroyed)
  t.equal(near.listenerCount('data'), 1)
})

void tap.test(
  'the rest of a request is forgotten up to its end, its close, or a bound',
  async (t) => {
    const [near] = await openSocketPair(t)
    const ways: [title: string, act: (request: IncomingMessage) => void][] = [
      ['end', (request) => void request.push(null)],
      ['close', (request) => void request.destroy()],
      [
        'bound',
        (request) => {
          for (let i = 0; i < 20; i++) request.push(Buffer.alloc(100_000))
        },
      ],
    ]
    for (const [title, act] of ways) {
      const request = requestOn(near)
      request.on('error', () => undefined)
      let done = 0
      forgetRest(request, () => done++)
      request.push('some')
      act(request)
      await until(title, () => done > 0)
      request.push(null)
      await new Promise((resolve) => setImmediate(resolve))
      t.equal(done, 1, `${title}: once`)
      t.equal(request.listenerCount('data'), 0, title)
    }
  },
)

function answerOn(socket: Parameters<ServerResponse['assignSocket']>[0], isComplete: boolean) {
  const request = requestOn(socket, isComplete)
  const response = new ServerResponse(request)
  response.assignSocket(socket)
  return { request, response }
}

void tap.test(
  'on a response: a denial of a whole request leaves the connection open',
  async (t) => {
    const [near, far] = await openSocketPair(t)
    const client = rawClientOf(far)
    const { request, response } = answerOn(near, true)
    refuseOnResponse(request, response, NO_RULE)
    const answer = await client.answer()
    t.equal(answer.status, 403)
    t.notSame(valuesOf(answer, 'connection'), ['close'])
    t.notOk(client.isEnded)
  },
)

void tap.test('on a response: it closes where the client is at fault or still sends', async (t) => {
  const rows: [{ reason: DenyReason; status?: number }, isComplete: boolean][] = [
    [{ reason: 'no-rule' }, false],
    [{ reason: 'bad-target' }, true],
    [{ reason: 'bad-target', status: 431 }, true],
    [{ reason: 'auth' }, true],
    [{ reason: 'dial' }, true],
    [{ reason: 'draining' }, true],
  ]
  for (const [parts, isComplete] of rows) {
    const [near, far] = await openSocketPair(t)
    const client = rawClientOf(far)
    const { request, response } = answerOn(near, isComplete)
    refuseOnResponse(request, response, refusal({ ...BLANK, ...parts }))
    const answer = await client.answer()
    t.strictSame(valuesOf(answer, 'connection'), ['close'], parts.reason)
    await client.closed()
  }
})

void tap.test('on a response: an answer that has begun breaks off', async (t) => {
  const [near, far] = await openSocketPair(t)
  const client = rawClientOf(far)
  const { request, response } = answerOn(near, true)
  response.writeHead(200, { 'Content-Length': 10 })
  response.write('half')
  await client.until('half')
  refuseOnResponse(request, response, NO_RULE)
  await until('it is broken off', () => client.isClosed)
  t.equal(client.error?.code, 'ECONNRESET')
  t.notMatch(client.text, '403')
})
