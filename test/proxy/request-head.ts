import tap from 'tap'
import { isBadTarget } from '../../src/policy/target.ts'
import { formatTarget } from '../../src/policy/target.ts'
import {
  announcesBody,
  fieldValues,
  headBytes,
  hopsLeft,
  readConnect,
  readForward,
  readTunnelled,
} from '../../src/proxy/request-head.ts'
import { incoming } from '../support/incoming.ts'
import { targetOf } from '../support/policy-of.ts'

type Result = ReturnType<typeof readForward>

/** `host:port path`, or the reason of a fault. */
function shown(result: Result): string {
  if (result.kind === 'fault') return result.reason
  return `${formatTarget(result.target)} ${result.path}`.trim()
}

void tap.test('all values of a field, whatever the case of its name', async (t) => {
  const request = incoming({ fields: ['A: 1', 'b: 2', 'a: 3', 'AA: 4', 'A:'] })
  t.strictSame(fieldValues(request, 'a'), ['1', '3', ''])
  t.strictSame(fieldValues(request, 'c'), [])
})

void tap.test('the length of a head as it was on the wire', async (t) => {
  const fields = ['Host: a.test', 'X: yy']
  const wire = 'GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\nX: yy\r\n\r\n'
  t.equal(headBytes(incoming({ url: 'http://a.test/', fields })), wire.length)
  t.equal(headBytes(incoming()), 'GET / HTTP/1.1\r\n\r\n'.length)
})

void tap.test('a body is announced by a length that is not 0, or by a coding', async (t) => {
  const rows: [fields: string[], announced: boolean][] = [
    [[], false],
    [['Content-Length: 0'], false],
    [['Content-Length: 1'], true],
    [['content-length: 00'], true],
    [['Content-Length: 0', 'Content-Length: 5'], true],
    [['Transfer-Encoding: chunked'], true],
    [['TRANSFER-ENCODING:'], true],
  ]
  for (const [fields, announced] of rows) {
    t.equal(announcesBody(incoming({ fields })), announced, fields.join())
  }
})

void tap.test('Max-Forwards counts for OPTIONS alone, and only as one number', async (t) => {
  const left = (method: string, ...values: string[]) =>
    hopsLeft(incoming({ method, fields: values.map((value) => `Max-Forwards: ${value}`) }))
  t.equal(left('OPTIONS', '0'), 0)
  t.equal(left('OPTIONS', '010'), 10)
  t.equal(left('GET', '0'), undefined)
  t.equal(left('OPTIONS'), undefined)
  for (const value of ['-1', '1.5', '0x1', '', '1e3', '9999999999', '１']) {
    t.equal(left('OPTIONS', value), undefined, value)
  }
  t.equal(left('OPTIONS', '1', '0'), undefined)
})

void tap.test('CONNECT: authority-form, with a port', async (t) => {
  const rows: [url: string, result: string][] = [
    ['a.test:443', 'a.test:443'],
    ['A.TEST.:443', 'a.test:443'],
    ['a.test:00443', 'a.test:443'],
    ['[::1]:22', '[::1]:22'],
    ['[::ffff:127.0.0.1]:22', '127.0.0.1:22'],
    ['0x7f.1:80', '127.0.0.1:80'],
    ['2130706433:80', '127.0.0.1:80'],
    ...[
      'a.test',
      'a.test:',
      ':443',
      'a.test:0',
      'a.test:65536',
      'a.test:4 43',
      'a.test:443/',
      'http://a.test:443',
      '/',
      '*',
      '',
      '::1:443',
      '[::1]',
      'user@a.test:443',
      'a..test:443',
      'a.test:443?x',
      'a.test:443#x',
      'a\\b:443',
      'a%2etest:443',
      '017.0.0.1:80',
      '1.2.3.4.:80',
      'a.test:４４３',
      'ａ.test:443',
      'a.test:-443',
      'a.test:443:443',
      '[a.test]:443',
      '[1.2.3.4]:80',
    ].map((url): [string, string] => [url, 'bad-target']),
  ]
  for (const [url, result] of rows) {
    t.equal(shown(readConnect(incoming({ method: 'CONNECT', url }))), result, url)
  }
})

void tap.test('CONNECT has no body and one Host at most, whose value says nothing', async (t) => {
  const rows: [fields: string[], result: string][] = [
    [[], 'a.test:443'],
    [['Host: evil.test'], 'a.test:443'],
    [['Host: a.test', 'host: a.test'], 'host-mismatch'],
    [['Content-Length: 0'], 'bad-target'],
    [['Content-Length: 5'], 'bad-target'],
    [['Transfer-Encoding: chunked'], 'bad-target'],
    [['Transfer-Encoding: identity'], 'bad-target'],
  ]
  for (const [fields, result] of rows) {
    const request = incoming({ method: 'CONNECT', url: 'a.test:443', fields })
    t.equal(shown(readConnect(request)), result, fields.join())
  }
  for (const httpVersion of ['0.9', '2.0', '1.2', '3.0']) {
    const request = incoming({ method: 'CONNECT', url: 'a.test:443', httpVersion })
    t.equal(shown(readConnect(request)), 'bad-target', httpVersion)
  }
  t.equal(shown(readConnect(incoming({ url: 'a.test:443', httpVersion: '1.0' }))), 'a.test:443')
})

void tap.test('plain HTTP: absolute-form of http and ws alone', async (t) => {
  const host = { fields: ['Host: a.test'] }
  const rows: [url: string, result: string][] = [
    ['http://a.test/', 'a.test:80 /'],
    ['http://a.test', 'a.test:80 /'],
    ['http://a.test?q=/x', 'a.test:80 /?q=/x'],
    ['HTTP://A.Test.:80/%2e%2e/a b', 'a.test:80 /%2e%2e/a b'],
    ['ws://a.test/s', 'a.test:80 /s'],
    ['WS://a.test/s', 'a.test:80 /s'],
    ['http://a.test//evil.test/', 'a.test:80 //evil.test/'],
    ['http://a.test/http://evil.test/', 'a.test:80 /http://evil.test/'],
    ['http://a.test/@evil.test', 'a.test:80 /@evil.test'],
    ['http://a.test?@evil.test/', 'a.test:80 /?@evil.test/'],
    ...[
      '/',
      '*',
      '',
      'a.test',
      'a.test:80',
      '//a.test/',
      'http:a.test',
      'http:/a.test',
      'http:///',
      'https://a.test/',
      'wss://a.test/',
      'ftp://a.test/',
      'httpx://a.test/',
      ' http://a.test/',
      'http://a.test/#x',
      'http://a.test#@evil.test/',
      'http://a.test:/',
      'http://a.test:0/',
      'http://u@a.test/',
      'http://a.test@evil.test/',
      'http://a.test\\@evil.test/',
      'http://a.test\\/',
      'http://a.test%2f/',
      'http://[a.test]/',
      'http://a.test:80:80/',
      'http://a.test,evil.test/',
      'http://a.test\t/',
      'http:// a.test/',
      'http\0://a.test/',
      'javascript://a.test/',
    ].map((url): [string, string] => [url, 'bad-target']),
  ]
  for (const [url, result] of rows)
    t.equal(shown(readForward(incoming({ url, ...host }))), result, url)
})

void tap.test('OPTIONS of a server as a whole', async (t) => {
  const options = (url: string) =>
    shown(readForward(incoming({ method: 'OPTIONS', url, fields: ['Host: a.test'] })))
  t.equal(options('http://a.test'), 'a.test:80 *')
  t.equal(options('http://a.test/'), 'a.test:80 /')
  t.equal(options('http://a.test?x'), 'a.test:80 /?x')
})

void tap.test('the Host of a plain request agrees with its URL', async (t) => {
  const rows: [url: string, fields: string[], version: string, isGood: boolean][] = [
    ['http://a.test/', ['Host: a.test'], '1.1', true],
    ['http://a.test/', ['Host: A.TEST.'], '1.1', true],
    ['http://a.test/', ['Host: a.test:80'], '1.1', true],
    ['http://a.test:80/', ['Host: a.test'], '1.1', true],
    ['http://a.test:81/', ['Host: a.test:81'], '1.1', true],
    ['http://127.0.0.1/', ['Host: 0x7f.1'], '1.1', true],
    ['http://[::1]/', ['Host: [0:0::1]:80'], '1.1', true],
    ['http://a.test/', [], '1.0', true],
    ['http://a.test/', [], '1.1', false],
    ['http://a.test/', ['Host:'], '1.1', false],
    ['http://a.test/', ['Host:'], '1.0', false],
    ['http://a.test/', ['Host: b.test'], '1.0', false],
    ['http://a.test/', ['Host: b.test'], '1.1', false],
    ['http://a.test/', ['Host: a.test:443'], '1.1', false],
    ['http://a.test:81/', ['Host: a.test'], '1.1', false],
    ['http://a.test/', ['Host: sub.a.test'], '1.1', false],
    ['http://a.test/', ['Host: a.test', 'Host: a.test'], '1.1', false],
    ['http://a.test/', ['Host: a.test', 'HOST: b.test'], '1.0', false],
    ['http://a.test/', ['Host: a.test, b.test'], '1.1', false],
    ['http://a.test/', ['Host: a.test@b.test'], '1.1', false],
    ['http://a.test/', ['Host: a.test b.test'], '1.1', false],
    ['http://a.test/', ['Host: http://a.test'], '1.1', false],
    ['http://a.test/', ['Host: a.test/'], '1.1', false],
    ['http://a.test/', ['Host: a.test:'], '1.1', false],
    ['http://a.test/', ['Host: [a.test]'], '1.1', false],
    ['http://[::1]/', ['Host: ::1'], '1.1', false],
  ]
  for (const [url, fields, httpVersion, isGood] of rows) {
    const result = readForward(incoming({ url, fields, httpVersion }))
    const title = `${url} ${fields.join()} ${httpVersion}`
    t.equal(
      result.kind === 'fault' ? result.reason : 'good',
      isGood ? 'good' : 'host-mismatch',
      title,
    )
  }
})

void tap.test('framing that Node lets pass', async (t) => {
  const rows: [fields: string[], isGood: boolean][] = [
    [['Transfer-Encoding: chunked'], true],
    [['Transfer-Encoding: CHUNKED'], true],
    [['Content-Length: 5'], true],
    [['Transfer-Encoding:'], false],
    [['Transfer-Encoding: gzip, chunked'], false],
    [['Transfer-Encoding: chunked, chunked'], false],
    [['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked'], false],
    [['Transfer-Encoding: chunked;q=1'], false],
    [['Transfer-Encoding: "chunked"'], false],
    [['Transfer-Encoding: identity'], false],
    [['Transfer-Encoding: chunked', 'Content-Length: 5'], false],
    [['Content-Length: 0', 'Transfer-Encoding: chunked'], false],
  ]
  const tunnel = targetOf('a.test:80')
  for (const [fields, isGood] of rows) {
    const all = { method: 'POST', fields: ['Host: a.test', ...fields] }
    const result = isGood ? 'target' : 'fault'
    t.equal(readForward(incoming({ ...all, url: 'http://a.test/' })).kind, result, fields.join())
    t.equal(readTunnelled(incoming(all), tunnel).kind, result, `${fields.join()} in a tunnel`)
  }
  const old = ['Host: a.test', 'Transfer-Encoding: chunked']
  const request = { method: 'POST', httpVersion: '1.0', fields: old }
  t.equal(readForward(incoming({ ...request, url: 'http://a.test/' })).kind, 'fault')
})

void tap.test('inside a tunnel its own name and port are the only Host', async (t) => {
  const rows: [tunnel: string, url: string, host: string | undefined, result: string][] = [
    ['a.test:80', '/x?y', 'a.test', 'a.test:80 /x?y'],
    ['a.test:80', '/', 'A.Test.:80', 'a.test:80 /'],
    ['a.test:443', '/', 'a.test', 'a.test:443 /'],
    ['a.test:443', '/', 'a.test:443', 'a.test:443 /'],
    ['a.test:443', '*', 'a.test', 'a.test:443 *'],
    ['a.test:80', '//evil.test/', 'a.test', 'a.test:80 //evil.test/'],
    ['a.test:80', 'http://a.test/x', 'a.test', 'a.test:80 /x'],
    ['a.test:8080', 'http://a.test:8080/x', 'a.test:8080', 'a.test:8080 /x'],
    ['a.test:443', '/', 'a.test:80', 'host-mismatch'],
    ['a.test:80', '/', 'evil.test', 'host-mismatch'],
    ['a.test:80', '/', 'sub.a.test', 'host-mismatch'],
    ['a.test:80', '/', undefined, 'host-mismatch'],
    ['a.test:80', 'http://evil.test/', 'evil.test', 'host-mismatch'],
    ['a.test:80', 'http://evil.test/', 'a.test', 'host-mismatch'],
    ['a.test:80', 'http://a.test/', 'evil.test', 'host-mismatch'],
    ['a.test:80', 'http://a.test:81/', 'a.test:81', 'host-mismatch'],
    ['a.test:443', 'http://a.test/', 'a.test', 'host-mismatch'],
    ['a.test:80', 'https://a.test/', 'a.test', 'bad-target'],
    ['a.test:80', 'a.test:80', 'a.test', 'bad-target'],
    ['a.test:80', 'x', 'a.test', 'bad-target'],
    ['a.test:80', '/#x', 'a.test', 'bad-target'],
  ]
  for (const [tunnel, url, host, result] of rows) {
    const fields = host === undefined ? [] : [`Host: ${host}`]
    const found = readTunnelled(incoming({ url, fields }), targetOf(tunnel))
    t.equal(shown(found), result, `${tunnel} ${url} ${host}`)
    if (found.kind === 'target') t.match(found.target, { via: 'connect', scheme: 'http' })
    else t.strictSame(found.target, targetOf(tunnel), 'a fault is one of the tunnel')
  }
})

void tap.test('a fault shows the target as it came', async (t) => {
  const result = readForward(incoming({ url: 'http://a..test/x' }))
  if (result.kind !== 'fault' || !result.target || !isBadTarget(result.target)) {
    throw new Error('no fault')
  }
  t.match(result.target, { text: 'http://a..test/x', via: 'forward', bad: 'an empty label' })
  t.match(readConnect(incoming({ url: 'x' })), { target: { text: 'x', via: 'connect' } })
})
