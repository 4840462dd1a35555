import tap from 'tap'
import { createAuthenticator, createToken } from '../../src/proxy/authenticate.ts'

const TOKEN = 'aB3.~_-x'
const basic = (pair: string) => Buffer.from(pair).toString('base64')

void tap.test('a token is 32 random bytes that need no escaping anywhere', async (t) => {
  const tokens = new Set(Array.from({ length: 50 }, () => createToken()))
  t.equal(tokens.size, 50)
  for (const token of tokens) t.match(token, /^[\da-f]{64}$/)
})

void tap.test('what opens and what does not', async (t) => {
  const check = createAuthenticator(TOKEN)
  const opens: string[][] = [
    [`Bearer ${TOKEN}`],
    [`bearer ${TOKEN}`],
    [`BEARER   ${TOKEN}  `],
    [`Basic ${basic(`run:${TOKEN}`)}`],
    [`bASIC ${basic(`:${TOKEN}`)}`],
    [`Basic ${basic(`any user, really:${TOKEN}`)}`],
    [`Basic ${basic(`ünï:${TOKEN}`)}`],
    [`Basic ${basic(`run:${TOKEN}`).replace(/=+$/, '')}`],
  ]
  for (const fields of opens) t.equal(check(fields), true, JSON.stringify(fields))
  const stays: string[][] = [
    [],
    [''],
    ['Bearer'],
    ['Bearer '],
    [TOKEN],
    [`Bearer ${TOKEN}x`],
    [`Bearer x${TOKEN}`],
    [`Bearer ${TOKEN.slice(0, -1)}`],
    [`Bearer ${TOKEN.toLowerCase()}`],
    [`Bearer ${TOKEN.toUpperCase()}`],
    [`Bearer ${TOKEN}, Bearer ${TOKEN}`],
    [`Bearer "${TOKEN}"`],
    [`Bearer\t${TOKEN}`],
    [`Bearer ${TOKEN}\0`],
    [`Token ${TOKEN}`],
    [`Digest ${basic(`run:${TOKEN}`)}`],
    [`Negotiate ${TOKEN}`],
    [`Basic ${TOKEN}`],
    [`Basic ${basic(TOKEN)}`],
    [`Basic ${basic(`${TOKEN}:`)}`],
    [`Basic ${basic(`run:${TOKEN}:`)}`],
    [`Basic ${basic(`run::${TOKEN}`)}`],
    [`Basic ${basic(`run:${TOKEN}\n`)}`],
    [`Basic ${basic(`run:`)}`],
    [`Basic ${basic(':')}`],
    ['Basic ===='],
    [`Bearer ${TOKEN}`, `Bearer ${TOKEN}`],
    [`Bearer ${TOKEN}`, 'Bearer wrong'],
    ['Bearer wrong', `Bearer ${TOKEN}`],
    [`Bearer ${TOKEN}`, ''],
  ]
  for (const fields of stays) t.equal(check(fields), false, JSON.stringify(fields))
})

void tap.test('a token that could not stand in a header or a URL is refused', async (t) => {
  for (const token of [
    '',
    ' ',
    'a b',
    'a:b',
    'a@b',
    'a/b',
    'é',
    'a\n',
    '\na',
    'a\r\nX: y',
    'a%20',
  ]) {
    t.throws(() => createAuthenticator(token), { code: 'OPTION_INVALID' }, JSON.stringify(token))
  }
  t.doesNotThrow(() => createAuthenticator('x'))
})

void tap.test('the message of a refused token does not show it', async (t) => {
  try {
    createAuthenticator('se cret')
    t.fail('nothing was thrown')
  } catch (error) {
    t.notMatch(String(error), 'cret')
  }
})

void tap.test('a long and hostile field costs nothing', async (t) => {
  const check = createAuthenticator(TOKEN)
  const before = process.cpuUsage()
  for (const field of [
    `Basic ${'='.repeat(60_000)}x`,
    `Bearer${' '.repeat(60_000)}`,
    `Basic ${'a='.repeat(30_000)}`,
    `${'b'.repeat(60_000)} x`,
  ]) {
    t.equal(check([field]), false)
  }
  const { user } = process.cpuUsage(before)
  t.ok(user < 1_000_000, `${user} microseconds`)
})
