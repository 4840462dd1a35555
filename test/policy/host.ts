import tap from 'tap'
import { parseIpv6 } from '../../src/policy/address.ts'
import { formatHost, ipHost, isValidALabel, parseHost } from '../../src/policy/host.ts'

const LONG = `${'a.'.repeat(126)}a`

function canonical(text: string): string {
  const host = parseHost(text)
  return host.kind === 'bad' ? `bad: ${host.why}` : `${host.kind} ${formatHost(host)}`
}

void tap.test('a name is lower case without the root dot', async (t) => {
  const table: [string, string][] = [
    ['example.test', 'name example.test'],
    ['EXAMPLE.Test.', 'name example.test'],
    ['a', 'name a'],
    ['_x.example.test', 'name _x.example.test'],
    ['-x-.example.test', 'name -x-.example.test'],
    ['xn--bcher-kva.test', 'name xn--bcher-kva.test'],
    ['XN--BCHER-KVA.TEST', 'name xn--bcher-kva.test'],
    ['1.2.3.4.test', 'name 1.2.3.4.test'],
    ['0x7f.test', 'name 0x7f.test'],
    ['4chan', 'name 4chan'],
    ['1.0xg', 'name 1.0xg'],
    ['constructor', 'name constructor'],
    ['__proto__', 'name __proto__'],
    [`${'a'.repeat(63)}.test`, `name ${'a'.repeat(63)}.test`],
    [LONG, `name ${LONG}`],
    [`${LONG}.`, `name ${LONG}`],
  ]
  for (const [text, expected] of table) t.equal(canonical(text), expected, text)
})

void tap.test('an address is the same in each of its spellings', async (t) => {
  const table: [string, string][] = [
    ['1.2.3.4', 'ip 1.2.3.4'],
    ['0x1020304', 'ip 1.2.3.4'],
    ['16909060', 'ip 1.2.3.4'],
    ['1.2.772', 'ip 1.2.3.4'],
    ['0X1.0x2.3.4', 'ip 1.2.3.4'],
    ['[2001:DB8:0::1]', 'ip [2001:db8::1]'],
    ['[::ffff:1.2.3.4]', 'ip 1.2.3.4'],
    ['[::ffff:102:304]', 'ip 1.2.3.4'],
    ['[::1.2.3.4]', 'ip [::102:304]'],
  ]
  for (const [text, expected] of table) t.equal(canonical(text), expected, text)
})

void tap.test('everything else is malformed, and says why', async (t) => {
  const table: [string, string][] = [
    ['', 'the host is empty'],
    ['.', 'an empty label'],
    ['..', 'an empty label'],
    ['a..b', 'an empty label'],
    ['.a', 'an empty label'],
    ['a.test..', 'an empty label'],
    ['a b.test', 'the character U+0020 does not belong into a host'],
    ['a\u0000.test', 'the character U+0000 does not belong into a host'],
    ['a\u007f.test', 'the character U+007F does not belong into a host'],
    ['a\n.test', 'the character U+000A does not belong into a host'],
    ['a.test\n', 'the character U+000A does not belong into a host'],
    ['bücher.test', 'the character U+00FC does not belong into a host'],
    ['\u212aelvin.test', 'the character U+212A does not belong into a host'],
    ['\u0130.test', 'the character U+0130 does not belong into a host'],
    ['ｅxample.test', 'the character U+FF45 does not belong into a host'],
    ['EXÄMPLE.test', 'the character U+00C4 does not belong into a host'],
    ['☕.test', 'the character U+2615 does not belong into a host'],
    ['😀.test', 'the character U+1F600 does not belong into a host'],
    ['\ud83d.test', 'the character U+D83D does not belong into a host'],
    ['a%41.test', 'the character U+0025 does not belong into a host'],
    ['a@b.test', 'the character U+0040 does not belong into a host'],
    ['a/b', 'the character U+002F does not belong into a host'],
    ['a\\b', 'the character U+005C does not belong into a host'],
    ['*.test', 'the character U+002A does not belong into a host'],
    ['a:b', 'a colon outside brackets'],
    ['2001:db8::1', 'a colon outside brackets'],
    [`${'a'.repeat(64)}.test`, 'a label has at most 63 characters'],
    [`${LONG}a`, 'a name has at most 253 characters'],
    ['a'.repeat(100_000), 'a name has at most 253 characters'],
    ['1.2.3.4.', 'a dot behind an IPv4 address'],
    ['0x7f.1.', 'a dot behind an IPv4 address'],
    ['1.2.3.256', 'a name that ends in a number must be an IPv4 address'],
    ['0177.0.0.1', 'a name that ends in a number must be an IPv4 address'],
    ['a.test.1', 'a name that ends in a number must be an IPv4 address'],
    ['a.0x', 'a name that ends in a number must be an IPv4 address'],
    ['4294967296', 'a name that ends in a number must be an IPv4 address'],
    ['xn--', 'a label that starts with xn-- is not valid punycode'],
    ['a.xn--a', 'a label that starts with xn-- is not valid punycode'],
    ['[', 'brackets do not enclose the host'],
    [']', 'brackets do not enclose the host'],
    ['[::1', 'brackets do not enclose the host'],
    ['::1]', 'brackets do not enclose the host'],
    ['[::1].', 'brackets do not enclose the host'],
    ['[]', 'brackets may only hold an IPv6 address'],
    ['[1.2.3.4]', 'brackets may only hold an IPv6 address'],
    ['[a.test]', 'brackets may only hold an IPv6 address'],
    ['[[::1]]', 'brackets may only hold an IPv6 address'],
    ['[::1%25lo]', 'an IPv6 zone id is not allowed'],
    ['[::1%lo]', 'an IPv6 zone id is not allowed'],
  ]
  for (const [text, why] of table)
    t.equal(canonical(text), `bad: ${why}`, JSON.stringify(text.slice(0, 40)))
})

void tap.test('no character outside ASCII folds into a name', async (t) => {
  const accepted: string[] = []
  for (let code = 0x80; code <= 0x10ffff; code++) {
    const char = String.fromCodePoint(code)
    if (parseHost(`a${char}b.test`).kind !== 'bad') accepted.push(char)
  }
  t.strictSame(accepted, [])
})

void tap.test('an A-label has to be what IDNA would write', async (t) => {
  t.ok(isValidALabel('example'))
  t.ok(isValidALabel('xn--bcher-kva'))
  for (const label of ['xn--', 'xn--a', 'xn--a-', 'xn--abc-', 'xn--zn7c', 'xn--1ug', 'xn--a-yoc']) {
    t.notOk(isValidALabel(label), label)
  }
})

void tap.test('an address becomes a host by what a socket would reach', async (t) => {
  const mapped = parseIpv6('::ffff:127.0.0.1')
  t.ok(mapped)
  if (mapped) t.match(ipHost(mapped), { kind: 'ip', text: '127.0.0.1' })
})
