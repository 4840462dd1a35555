import tap from 'tap'
import { parseHost } from '../../src/policy/host.ts'
import {
  describePattern,
  isWildcard,
  literalEnd,
  matchesPattern,
  parsePattern,
  type Pattern,
  patternLabels,
} from '../../src/policy/pattern.ts'
import { cpuTimeMs } from '../support/cpu-time.ts'

function pattern(text: string): Pattern {
  const parsed = parsePattern(text)
  if (parsed.kind === 'bad') throw new Error(`${text}: ${parsed.why}`)
  return parsed
}

void tap.test('each form is read into its canonical spelling', async (t) => {
  const table: [text: string, canonical: string][] = [
    ['api.example.com', 'api.example.com'],
    ['API.Example.COM.', 'api.example.com'],
    ['*.example.com', '*.example.com'],
    ['**.example.com', '**.example.com'],
    ['bedrock.*.example.com', 'bedrock.*.example.com'],
    ['*-docker.example.com', '*-docker.example.com'],
    ['**.a*.example.com', '**.a*.example.com'],
    ['**', '**'],
    ['*', '*'],
    ['_dmarc.example.com', '_dmarc.example.com'],
    ['constructor', 'constructor'],
    ['bücher.example', 'xn--bcher-kva.example'],
    ['BÜCHER.example', 'xn--bcher-kva.example'],
    ['bu\u0308cher.example', 'xn--bcher-kva.example'],
    ['xn--bcher-kva.example', 'xn--bcher-kva.example'],
    ['☕️.example', 'xn--53h.example'],
    ['ΌΛΟΣ.example', 'xn--wxaim7a.example'],
    ['όλοσ.example', 'xn--wxaim7a.example'],
    ['**.bücher.example', '**.xn--bcher-kva.example'],
    ['203.0.113.7', '203.0.113.7'],
    ['[2001:DB8::1]', '2001:db8::1'],
    ['2001:db8:0::1', '2001:db8::1'],
    ['10.0.0.0/8', '10.0.0.0/8'],
    ['2001:db8::/32', '2001:db8::/32'],
    ['0.0.0.0/0', '0.0.0.0/0'],
    ['1.2.3.4/32', '1.2.3.4'],
    ['::ffff:1.2.3.4', '1.2.3.4'],
    ['[::ffff:102:304]', '1.2.3.4'],
    ['::ffff:10.0.0.0/104', '10.0.0.0/8'],
    ['::ffff:0:0/96', '0.0.0.0/0'],
    ['::/64', '::/64'],
  ]
  for (const [text, canonical] of table) t.equal(pattern(text).text, canonical, text)
})

void tap.test(
  'what is no pattern is refused with its reason, and corrected where that is clear',
  async (t) => {
    const table: [text: string, why: RegExp | string, correction?: string][] = [
      ['', 'the pattern is empty'],
      ['https://api.example.com/v1', 'a pattern has no scheme and no path', 'api.example.com'],
      ['https://', 'a pattern has no scheme and no path'],
      ['api.example.com/v1', 'a pattern has no path', 'api.example.com'],
      ['user@example.com', 'a pattern has no user information', 'example.com'],
      ['a%20b.example', /no %/],
      ['fe80::1%eth0', /no %/, 'fe80::1'],
      ['[fe80::1%25eth0]', /no %/, 'fe80::1'],
      ['.', 'an empty label'],
      ['..', 'an empty label'],
      ['.example.com', 'an empty label', '**.example.com'],
      ['a..example.com', 'an empty label', 'a.example.com'],
      ['a.example.com..', 'an empty label', 'a.example.com'],
      ['a.**.example.com', '** may only be the first label'],
      ['**.**', '** may only be the first label'],
      ['a**', '** may only be the first label'],
      ['**example.com', '** stands for whole labels', '**.example.com'],
      ['a*b*.example.com', 'at most one * in a label'],
      ['***.example.com', /\*\* may only be the first label|at most one/],
      ['a?.example.com', /\? is not allowed/],
      ['[ab].example.com', /\[ is not allowed/],
      ['(a|b).example.com', /\( is not allowed/],
      ['a.example.com$', /\$ is not allowed/],
      ['^a.example.com', /\^ is not allowed/],
      ['a+b.example.com', /\+ is not allowed/],
      ['a\\.example.com', /\\ is not allowed/],
      ['{a,b}.example.com', /\{ is not allowed/],
      ['a,b.example.com', /U\+002C/],
      ['!a.example.com', /U\+0021/],
      ['a;b.example.com', /U\+003B/],
      ['a"b.example.com', /U\+0022/],
      ['a~b.example.com', /U\+007E/],
      ['a]b.example.com', 'IDNA does not allow this label'],
      [' a.example.com', 'the invisible character U+0020 is not allowed', 'a.example.com'],
      ['a b.example.com', 'the invisible character U+0020 is not allowed'],
      ['a\u0000.example.com', 'the invisible character U+0000 is not allowed'],
      ['a\nb.example.com', 'the invisible character U+000A is not allowed'],
      ['a\u200b.example.com', 'the invisible character U+200B is not allowed'],
      ['a\u00ad.example.com', 'the invisible character U+00AD is not allowed'],
      ['\ufeffa.example.com', 'the invisible character U+FEFF is not allowed', 'a.example.com'],
      ['a\u202e.example.com', 'the invisible character U+202E is not allowed'],
      ['a\ufe0f.example.com', 'the invisible character U+FE0F is not allowed'],
      ['1\ufe0f.example.com', 'the invisible character U+FE0F is not allowed'],
      ['\ud800.example.com', 'the invisible character U+D800 is not allowed'],
      ['a\u3164.example.com', 'the invisible character U+3164 is not allowed'],
      ['ｅxample.com', 'the look-alike character U+FF45 is not allowed', 'example.com'],
      ['examplℯ.com', 'the look-alike character U+212F is not allowed', 'example.com'],
      ['\u212aelvin.example', 'the look-alike character U+212A is not allowed', 'kelvin.example'],
      ['\u212aü.example', 'the look-alike character U+212A is not allowed', 'kü.example'],
      ['ﬁx.example', 'the look-alike character U+FB01 is not allowed', 'fix.example'],
      ['１.example', 'the look-alike character U+FF11 is not allowed', '1.example'],
      ['a。example', 'the look-alike character U+3002 is not allowed', 'a.example'],
      ['bücher。example', 'the look-alike character U+3002 is not allowed', 'bücher.example'],
      ['bücher．example', 'the look-alike character U+FF0E is not allowed', 'bücher.example'],
      ['ａ\u2044b.example', 'the look-alike character U+FF41 is not allowed'],
      ['bü*.example', 'a label with * has to be ASCII'],
      ['\u212a*.example', 'a label with * has to be ASCII'],
      ['xn--a.example', 'a label that starts with xn-- is not valid punycode'],
      ['\u2ff0.example', 'IDNA does not allow U+2FF0'],
      ['\u0301a.example', 'IDNA does not allow U+0301'],
      ['\u0378.example', 'the invisible character U+0378 is not allowed'],
      [`${'a'.repeat(64)}.example`, 'a label has at most 63 characters'],
      [`${'ü'.repeat(63)}.example`, 'IDNA does not allow this label'],
      [`${'a.'.repeat(127)}a`, 'a name has at most 253 characters'],
      ['a:b:c.example', 'this is neither a name nor an IPv6 address'],
      ['[a.example]', /\[ is not allowed/],
      ['[1.2.3.4]', 'brackets may only hold an IPv6 address', '1.2.3.4'],
      ['[]', 'brackets may only hold an IPv6 address', ''],
      ['[::1', /\[ is not allowed/],
      ['::1]', 'this is neither a name nor an IPv6 address'],
      ['[::1]/128', 'a range has no brackets', '::1/128'],
      ['10.1.2.3/8', 'the address has bits set behind the prefix length', '10.0.0.0/8'],
      ['2001:db8::1/32', 'the address has bits set behind the prefix length', '2001:db8::/32'],
      ['10.0.0.0/33', 'a prefix length is a number from 0 to 32'],
      ['10.0.0.0/08', 'a prefix length is a number from 0 to 32'],
      ['10.0.0.0/', 'a prefix length is a number from 0 to 32'],
      ['10.0.0.0/8/8', 'a prefix length is a number from 0 to 32'],
      ['10.0.0.0/255.0.0.0', 'a prefix length is a number from 0 to 32'],
      ['2001:db8::/129', 'a prefix length is a number from 0 to 128'],
      ['10/8', 'an IPv4 range is written with four decimal parts', '10.0.0.0/8'],
      ['192.168/16', 'an IPv4 range is written with four decimal parts', '192.168.0.0/16'],
      ['0xa000000/8', 'an IPv4 range is written with four decimal parts', '10.0.0.0/8'],
      ['0x7f.1', 'a numeric host has to be an IPv4 address of four decimal parts', '127.0.0.1'],
      ['2130706433', 'a numeric host has to be an IPv4 address of four decimal parts', '127.0.0.1'],
      ['127.1', 'a numeric host has to be an IPv4 address of four decimal parts', '127.0.0.1'],
      ['0177.0.0.1', 'a numeric host has to be an IPv4 address of four decimal parts'],
      ['1.2.3.4.', 'a numeric host has to be an IPv4 address of four decimal parts', '1.2.3.4'],
      ['1.2.3.256', 'a numeric host has to be an IPv4 address of four decimal parts'],
      ['*.1', 'a numeric host has to be an IPv4 address of four decimal parts'],
      ['example.0x', 'a numeric host has to be an IPv4 address of four decimal parts'],
      ['10.*.*.*', 'addresses are matched by range, not by *', '10.0.0.0/8'],
      ['10.1.*.*', 'addresses are matched by range, not by *', '10.1.0.0/16'],
      ['10.1.2.*', 'addresses are matched by range, not by *', '10.1.2.0/24'],
      ['999.1.2.*', 'addresses are matched by range, not by *'],
    ]
    for (const [text, why, correction] of table) {
      const parsed = parsePattern(text)
      const name = JSON.stringify(text.slice(0, 40))
      if (parsed.kind !== 'bad') {
        t.fail(`${name} is taken for ${parsed.text}`)
        continue
      }
      if (typeof why === 'string') t.equal(parsed.why, why, name)
      else t.match(parsed.why, why, name)
      t.equal(parsed.correction, correction, `correction of ${name}`)
    }
  },
)

void tap.test('labels and literal end of a pattern', async (t) => {
  const table: [string, readonly string[], string, boolean][] = [
    ['a.example.com', ['a', 'example', 'com'], 'a.example.com', false],
    ['*.example.com', ['*', 'example', 'com'], 'example.com', true],
    ['**.example.com', ['example', 'com'], 'example.com', true],
    ['a.*.example.com', ['a', '*', 'example', 'com'], 'example.com', true],
    ['*a.*b.com', ['*a', '*b', 'com'], 'com', true],
    ['a.*', ['a', '*'], '', true],
    ['**', [], '', true],
  ]
  for (const [text, labels, end, wildcard] of table) {
    const parsed = pattern(text)
    if (parsed.kind !== 'name') throw new Error(text)
    t.strictSame(patternLabels(parsed), labels, text)
    t.equal(literalEnd(parsed), end, text)
    t.equal(isWildcard(parsed), wildcard, text)
  }
})

void tap.test('a pattern matches what the table of the design says, and no more', async (t) => {
  const table: [pattern: string, yes: string[], no: string[]][] = [
    [
      'api.example.com',
      ['api.example.com', 'API.example.com.'],
      ['x.api.example.com', 'example.com', 'apixexample.com'],
    ],
    [
      '*.example.com',
      ['a.example.com', '-.example.com'],
      ['example.com', 'a.b.example.com', 'aexample.com'],
    ],
    [
      '**.example.com',
      ['a.example.com', 'a.b.c.example.com'],
      ['example.com', 'aexample.com', 'a.example.com.test'],
    ],
    [
      'a.*.example.com',
      ['a.b.example.com'],
      ['a.example.com', 'a.b.c.example.com', 'x.b.example.com'],
    ],
    [
      '*-docker.example.com',
      ['eu-docker.example.com', '-docker.example.com'],
      ['docker.example.com', 'a.eu-docker.example.com'],
    ],
    [
      '**.a*.example.com',
      ['x.a.example.com', 'x.y.ab.example.com'],
      ['ab.example.com', 'x.b.example.com'],
    ],
    ['**', ['a', 'a.b', 'a.b.c'], ['1.2.3.4', '[::1]']],
    ['*', ['a'], ['a.b', '1.2.3.4']],
    [
      '10.0.0.0/8',
      ['10.1.2.3', '[::ffff:a00:1]', '0xa000001'],
      ['11.0.0.0', 'a.example.com', '[::a00:1]'],
    ],
    ['2001:db8::/32', ['[2001:db8::1]', '[2001:DB8:ffff::]'], ['[2001:db9::]', '1.2.3.4']],
  ]
  for (const [text, yes, no] of table) {
    for (const name of [...yes, ...no]) {
      const host = parseHost(name)
      if (host.kind === 'bad') throw new Error(name)
      t.equal(matchesPattern(pattern(text), host), yes.includes(name), `${text} and ${name}`)
    }
  }
})

void tap.test('a pattern is told in words', async (t) => {
  const table: [string, string][] = [
    ['1.2.3.4', 'the address 1.2.3.4'],
    ['10.0.0.0/8', 'every address of 10.0.0.0/8'],
    ['a.example.com', 'the name a.example.com, no sub-names'],
    ['**', 'any name, no addresses'],
    ['**.example.com', 'any name below example.com, at any depth, not example.com itself'],
    ['*.example.com', 'names exactly one label below example.com, not example.com itself'],
    ['**.a*.example.com', 'any name below a*.example.com, where * is one label or part of one'],
    ['a.*.example.com', 'names of the form a.*.example.com, where * is one label or part of one'],
  ]
  for (const [text, words] of table) t.equal(describePattern(pattern(text)), words)
})

void tap.test('a very long text is refused at once', async (t) => {
  const texts = ['a', '☕\ufe0f', 'ü', '*', '.', ':', '[', '1.', 'a.', '**.', '0x', '%', 'é\u0301']
  for (const text of texts) {
    const started = cpuTimeMs()
    t.equal(parsePattern(text.repeat(100_000)).kind, 'bad', text)
    t.ok(cpuTimeMs() - started < 6000, `${text} in time`)
  }
})
