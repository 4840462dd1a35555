import type { Random } from './random.ts'

/** The heads that clients really write, byte for byte. */
export const CLIENT_HEADS: Readonly<Record<string, string>> = {
  curl: 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nUser-Agent: curl/7.88.1\r\nProxy-Connection: Keep-Alive\r\n\r\n',
  'curl with a token':
    'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nProxy-Authorization: Basic dTpwQA==\r\nUser-Agent: curl/7.88.1\r\nProxy-Connection: Keep-Alive\r\n\r\n',
  git: 'CONNECT github.com:443 HTTP/1.1\r\nHost: github.com:443\r\nUser-Agent: git/2.39.5\r\nProxy-Connection: Keep-Alive\r\n\r\n',
  wget: 'CONNECT example.com:443 HTTP/1.1\r\nUser-Agent: Wget/1.21.3\r\nHost: example.com:443\r\n\r\n',
  npm: 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nProxy-Connection: Keep-Alive\r\n\r\n',
  undici:
    'CONNECT example.com:443 HTTP/1.1\r\nhost: example.com\r\nconnection: close\r\nproxy-connection: keep-alive\r\n\r\n',
  'undici with a token':
    'CONNECT example.com:443 HTTP/1.1\r\nhost: example.com\r\nconnection: close\r\nproxy-authorization: Basic dTpwQA==\r\nproxy-connection: keep-alive\r\n\r\n',
  'https-proxy-agent':
    'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nProxy-Connection: close\r\n\r\n',
  'https-proxy-agent with a token':
    'CONNECT example.com:443 HTTP/1.1\r\nProxy-Authorization: Basic dTpwQA==\r\nHost: example.com:443\r\nProxy-Connection: Keep-Alive\r\n\r\n',
  'Python requests, urllib, pip': 'CONNECT pypi.org:443 HTTP/1.0\r\n\r\n',
  Go: 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nUser-Agent: Go-http-client/1.1\r\n\r\n',
  apt: 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nUser-Agent: Debian APT-HTTP/1.3 (2.6.1)\r\n\r\n',
  Java: 'CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\n\r\n',
}

const METHODS = ['CONNECT', 'connect', 'CONNECT2', 'GET', 'CONNEC', 'PRI', '']
const BLANKS = ['  ', '\t', '', '\v', '\xa0', ' \t']
const VERSIONS = [
  'HTTP/1.0',
  'HTTP/1.2',
  'HTTP/2.0',
  'HTTP/0.9',
  'http/1.1',
  'HTTP/1.1 ',
  'HTTP/11',
  '',
]
const TARGETS = [
  '[::1]:443',
  '[::ffff:1.2.3.4]:1',
  '1.2.3.4:80',
  'a:1',
  'a_b.c-d:0',
  'A.TEST:65536',
  '::1:443',
  '*',
  '/',
  'http://a.test/',
  'user@a.test:1',
  'a.test',
  'a.test:',
  ':443',
  ':',
  '.',
  '-',
  ']',
  '[',
  'a.test:443/path',
  'a.test:443?q',
  'a.test:443#f',
  'a%2e:1',
  'a,b:1',
  'a;b:1',
  'ä.test:443',
  '',
]
const NAMES = [
  'Host',
  'host',
  'X',
  "!#$%&'*+-.^_`|~0aZ",
  'Proxy-Connection',
  'Connection',
  'Keep-Alive',
  'Expect',
  'Content-Length',
  'content-lengtH',
  'Transfer-Encoding',
  'Upgrade',
  'Content-Length ',
  'TE',
  'Trailer',
  'X-Content-Length',
  'Content-Lengthy',
  'Sec-WebSocket-Key',
  'HTTP2-Settings',
  '',
  ' ',
  'a b',
  'a\tb',
  'ä',
]
const VALUES = [
  '',
  ' ',
  ' \t ',
  'v',
  'a: b',
  ':',
  '::',
  ' two  words\t',
  '\x80\xff',
  '\x85',
  '\xa0nbsp\xa0',
  '0',
  '5',
  'chunked',
  'close',
  'keep-alive',
  'upgrade',
  'Upgrade, HTTP2-Settings',
  'h2c',
  'websocket',
  '100-continue',
  '"quoted',
  'a\x7fb',
  'a\x00b',
  'a\x01',
  'a\x0bb',
  'a\x0cb',
  'a\rb',
  'a\nb',
  'a\r\n b',
  'a\r\n\tb',
  '\u0008',
]
const ENDS = ['\n', '\r', '\r\r\n', '\n\r', ' \r\n', '\r\n ', '\r\n\r\n', '']
const TAILS = ['', 'early', '\x16\x03\x01', '\r\n', '\n', 'GET / HTTP/1.1\r\n\r\n', '\0\xff']
const LEADS = ['', '', '', '', '', '', '\r\n', '\n', '\r', ' ', '\0']

/** A head that is as it has to be but for a part here and there, and what comes behind it, as latin1. */
export function randomHead(random: Random): string {
  // Most parts are plain: a head with one odd part tells more than one that is odd all over.
  const odd = (plain: string, others: readonly string[], percent = 6) =>
    random.chance(percent) ? random.pick(others) : plain
  const crlf = () => odd('\r\n', ENDS, 2)
  const line = () => {
    const name = odd(random.pick(['Host', 'User-Agent', 'Proxy-Authorization']), NAMES, 40)
    const value = random.chance(60) ? random.pick(VALUES) : noise(random)
    return `${name}${odd(':', ['::', ' :', '', '\t:', '\0:'], 3)}${odd(' ', ['', '\t', '  '], 30)}${value}${crlf()}`
  }
  const target = random.chance(40) ? random.pick(TARGETS) : 'allowed.test:443'
  const start = `${odd('CONNECT', METHODS)}${odd(' ', BLANKS, 3)}${target}${odd(' ', BLANKS, 3)}`
  const fields = Array.from({ length: random.below(5) }, line).join('')
  const version = odd('HTTP/1.1', VERSIONS)
  const head = `${random.pick(LEADS)}${start}${version}${crlf()}${fields}${crlf()}${random.pick(TAILS)}`
  return random.chance(25)
    ? withByte(head, random.below(head.length), random.below(256), random)
    : head
}

function noise(random: Random): string {
  const bytes = Array.from({ length: random.below(30) }, () => 32 + random.below(95))
  return String.fromCharCode(...bytes)
}

function withByte(text: string, at: number, byte: number, random: Random): string {
  return text.slice(0, at) + String.fromCharCode(byte) + text.slice(at + random.below(2))
}

/** A head with every byte there is put into every place, before what stands there and instead of it, and each left out. */
export function* everyByteEverywhere(head: string): Generator<string> {
  for (let at = 0; at <= head.length; at++) {
    const before = head.slice(0, at)
    yield before + head.slice(at + 1)
    yield before
    for (let byte = 0; byte < 256; byte++) {
      const put = String.fromCharCode(byte)
      yield before + put + head.slice(at)
      yield before + put + head.slice(at + 1)
    }
  }
}
