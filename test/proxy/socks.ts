import tap from 'tap'
import {
  methodAnswer,
  readMethods,
  readPassword,
  readRequest,
  replyFor,
  requestAnswer,
  type SocksRead,
  sshRefusal,
} from '../../src/proxy/socks.ts'

const bytes = (text: string) => Buffer.from(text, 'latin1')

/** Holds a reader to one message: every shorter piece asks for more, longer ones leave the rest. */
function whole<T>(
  t: Pick<typeof tap, 'match' | 'equal'>,
  read: (b: Buffer) => SocksRead<T>,
  text: string,
  message: T,
) {
  for (let length = 0; length < text.length; length++) {
    t.equal(read(bytes(text.slice(0, length))).kind, 'more', `${length} of ${JSON.stringify(text)}`)
  }
  for (const rest of ['', 'x', text]) {
    t.match(read(bytes(text + rest)), { kind: 'message', message, length: text.length })
  }
}

void tap.test('methods', async (t) => {
  whole(t, readMethods, '\x05\x01\0', [0])
  whole(t, readMethods, '\x05\x02\0\x02', [0, 2])
  whole(t, readMethods, '\x05\0', [])
  whole(
    t,
    readMethods,
    `\x05\xff${'\x09'.repeat(255)}`,
    Array.from({ length: 255 }, () => 9),
  )
  t.match(readMethods(bytes('\x04\x01')), { kind: 'bad', why: /SOCKS 5/ })
  t.strictSame(methodAnswer(2), bytes('\x05\x02'))
})

void tap.test('a password', async (t) => {
  whole(t, readPassword, '\x01\x01u\x02pw', 'pw')
  whole(t, readPassword, '\x01\0\0', '')
  whole(t, readPassword, `\x01\xff${'u'.repeat(255)}\xff${'p'.repeat(255)}`, 'p'.repeat(255))
  t.match(readPassword(bytes('\x05\x01u\x01p')), { kind: 'bad' })
})

void tap.test('a request', async (t) => {
  const rows: [text: string, message: object][] = [
    [
      '\x05\x01\0\x03\x06a.test\x01\xbb',
      { command: 1, port: 443, host: { kind: 'name', name: 'a.test' }, text: 'a.test:443' },
    ],
    ['\x05\x01\0\x03\x06A.TEST\0\x50', { host: { kind: 'name', name: 'a.test' }, port: 80 }],
    ['\x05\x01\0\x03\x07a.test.\0\x50', { host: { kind: 'name', name: 'a.test' } }],
    [
      '\x05\x01\0\x01\x0b\x16\x21\x2c\0\x16',
      { host: { kind: 'ip', text: '11.22.33.44' }, port: 22 },
    ],
    [
      `\x05\x01\0\x04\x20\x01\x0d\xb8${'\0'.repeat(11)}\x01\0\x16`,
      { host: { kind: 'ip', text: '2001:db8::1' }, text: '[2001:db8:0:0:0:0:0:1]:22' },
    ],
    // An address in another dress is the address.
    [
      `\x05\x01\0\x04${'\0'.repeat(10)}\xff\xff\x7f\0\0\x01\0\x50`,
      { host: { kind: 'ip', text: '127.0.0.1' } },
    ],
    ['\x05\x01\0\x03\x09127.0.0.1\0\x50', { host: { kind: 'ip', text: '127.0.0.1' } }],
    ['\x05\x01\0\x03\x042130\0\x50', { host: { kind: 'ip', text: '0.0.8.82' } }],
    ['\x05\x01\0\x03\x05[::1]\0\x50', { host: { kind: 'ip', text: '::1' } }],
    // What is no name in a CONNECT is none here.
    ['\x05\x01\0\x03\0\0\x50', { host: { kind: 'bad', why: 'the host is empty' } }],
    ['\x05\x01\0\x03\x08a.te\0.x\n\0\x50', { host: { kind: 'bad' } }],
    ['\x05\x01\0\x03\x0aa.test:443\0\x50', { host: { kind: 'bad' } }],
    ['\x05\x01\0\x03\x08u@a.test\0\x50', { host: { kind: 'bad' } }],
    ['\x05\x01\0\x03\x06\xe4.test\0\x50', { host: { kind: 'bad' } }],
    ['\x05\x01\0\x03\x06a.test\0\0', { host: { kind: 'name' }, port: 0 }],
    ['\x05\x02\0\x01\0\0\0\0\0\0', { command: 2 }],
    ['\x05\x03\0\x01\0\0\0\0\0\0', { command: 3 }],
  ]
  for (const [text, message] of rows) whole(t, readRequest, text, message as never)
  t.match(readRequest(bytes('\x05\x01\0\x02')), { kind: 'message', message: { host: undefined } })
  t.match(readRequest(bytes('\x05\x01\x01\x03')), { kind: 'bad', why: /reserved/ })
  t.match(readRequest(bytes('\x04\x01')), { kind: 'bad', why: /SOCKS 5/ })
})

void tap.test('answers', async (t) => {
  t.strictSame(requestAnswer(0), bytes('\x05\0\0\x01\0\0\0\0\0\0'))
  const rows = [
    ['no-rule', false, 2],
    ['excluded', false, 2],
    ['metadata-address', false, 2],
    ['unresolvable', false, 4],
    ['unresolvable', true, 6],
    ['dial', false, 5],
    ['dial', true, 6],
    ['limit', false, 1],
    ['bad-target', false, 1],
    ['internal', false, 1],
  ] as const
  for (const [reason, timedOut, reply] of rows) t.equal(replyFor(reason, timedOut), reply, reason)
})

void tap.test('a refusal as SSH has it', async (t) => {
  for (let length = 0; length < 40; length++) {
    const words = 'x'.repeat(length)
    const message = sshRefusal(words)
    const at = message.indexOf('\r\n') + 2
    t.equal(message.toString('latin1', 0, at), 'SSH-2.0-iterion_egress\r\n')
    const packet = message.subarray(at)
    const padding = packet[4] ?? 0
    t.equal(packet.readUInt32BE(0), packet.length - 4)
    t.equal(packet.length % 8, 0)
    t.ok(padding >= 4 && padding < 12)
    const payload = packet.subarray(5, packet.length - padding)
    t.strictSame(
      payload,
      bytes(`\x01\0\0\0\x01\0\0\0${String.fromCharCode(length)}${words}\0\0\0\0`),
    )
  }
})
