import tap from 'tap'
import {
  formatTarget,
  isBadTarget,
  parseAuthority,
  parsePort,
  parseTarget,
  splitAuthority,
} from '../../src/policy/target.ts'

function shown(text: string): string {
  const target = parseTarget(text)
  return isBadTarget(target)
    ? `bad: ${target.bad}`
    : `${target.scheme} ${formatTarget(target)} ${target.via}`
}

void tap.test('a target is read as people write it', async (t) => {
  const table: [string, string][] = [
    ['example.test', 'tcp example.test:443 connect'],
    ['Example.TEST.:22', 'tcp example.test:22 connect'],
    ['1.2.3.4', 'tcp 1.2.3.4:443 connect'],
    ['[2001:db8::1]', 'tcp [2001:db8::1]:443 connect'],
    ['[2001:db8::1]:22', 'tcp [2001:db8::1]:22 connect'],
    ['2001:db8::1', 'tcp [2001:db8::1]:443 connect'],
    ['::1', 'tcp [::1]:443 connect'],
    ['::ffff:1.2.3.4', 'tcp 1.2.3.4:443 connect'],
    ['http://example.test', 'http example.test:80 forward'],
    ['https://example.test/a?b#c', 'https example.test:443 connect'],
    ['ws://example.test:8080/', 'ws example.test:8080 forward'],
    ['wss://example.test', 'wss example.test:443 connect'],
    ['HTTPS://EXAMPLE.test', 'https example.test:443 connect'],
    ['http://[::1]:8080/x', 'http [::1]:8080 forward'],
    ['http://example.test?a', 'http example.test:80 forward'],
    ['https://example.test#a@b', 'https example.test:443 connect'],
  ]
  for (const [text, expected] of table) t.equal(shown(text), expected, text)
})

void tap.test('what names no target says why', async (t) => {
  const table: [string, string][] = [
    ['', 'the host is empty'],
    [':443', 'the host is empty'],
    ['http://', 'the host is empty'],
    ['http:///x', 'the host is empty'],
    ['ftp://example.test', 'the scheme ftp is not http, https, ws or wss'],
    ['constructor://example.test', 'the scheme constructor is not http, https, ws or wss'],
    ['https://https://example.test', 'the port is not 1 to 65535'],
    ['user@example.test', 'user information is not allowed'],
    ['http://user:pass@example.test/', 'user information is not allowed'],
    ['http://example.test\\@evil.test/', 'user information is not allowed'],
    ['http://example.test\\x', 'the character U+005C does not belong into a host'],
    ['example.test:', 'the port is not 1 to 65535'],
    ['example.test:0', 'the port is not 1 to 65535'],
    ['example.test:65536', 'the port is not 1 to 65535'],
    ['example.test:000443', 'the port is not 1 to 65535'],
    ['example.test:+443', 'the port is not 1 to 65535'],
    ['example.test:443 ', 'the port is not 1 to 65535'],
    ['[::1]443', 'brackets do not enclose the host'],
    ['[::1', 'a colon outside brackets'],
    ['mailto:someone', 'the port is not 1 to 65535'],
    ['1:2:3', 'a colon outside brackets'],
  ]
  for (const [text, why] of table) {
    const result = shown(text)
    if (text === '[::1') t.match(result, /^bad: /, text)
    else t.equal(result, `bad: ${why}`, text)
  }
})

void tap.test('the text of a bad target is kept as it came', async (t) => {
  t.match(parseTarget('https://a b/c'), { text: 'https://a b/c', via: 'connect' })
  t.match(parseTarget('http://a b/c'), { text: 'http://a b/c', via: 'forward' })
})

void tap.test('an authority needs its port unless one is given', async (t) => {
  const options = { scheme: 'tcp', via: 'socks' } as const
  t.match(parseAuthority('example.test', options), { bad: 'the port is missing', via: 'socks' })
  t.match(parseAuthority('example.test', { ...options, defaultPort: 80 }), { port: 80 })
  t.match(parseAuthority('example.test:', { ...options, defaultPort: 80 }), { bad: /port/ })
  t.match(parseAuthority('example.test:22', options), { port: 22, via: 'socks', scheme: 'tcp' })
})

void tap.test('host and port part at the colon behind the host', async (t) => {
  t.strictSame(splitAuthority('a:1'), { host: 'a', port: '1' })
  t.strictSame(splitAuthority('a'), { host: 'a', port: undefined })
  t.strictSame(splitAuthority('[::1]'), { host: '[::1]', port: undefined })
  t.strictSame(splitAuthority('[::1]:1'), { host: '[::1]', port: '1' })
  t.strictSame(splitAuthority('a:b:1'), { host: 'a:b', port: '1' })
})

void tap.test('a port has one to five digits', async (t) => {
  t.equal(parsePort('1'), 1)
  t.equal(parsePort('00443'), 443)
  t.equal(parsePort('65535'), 65535)
  for (const text of ['', '0', '65536', '000443', '-1', '1e3', '0x50', '４４３', '1 ', '1\n']) {
    t.equal(parsePort(text), undefined, JSON.stringify(text))
  }
})
