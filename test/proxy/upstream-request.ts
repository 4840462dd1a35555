import tap from 'tap'
import { ServerResponse } from 'node:http'
import { bareHead, flushHead, relayInterim, whyUnusable } from '../../src/proxy/upstream-request.ts'
import { incoming, requestOn } from '../support/incoming.ts'
import { rawClientOf } from '../support/raw-client.ts'
import { openSocketPair } from '../support/socket-pair.ts'

void tap.test(
  'a bare head: fields in order, a phrase without what no phrase may have',
  async (t) => {
    t.equal(
      bareHead(101, 'Switching', ['A', '1', 'a', '2']),
      'HTTP/1.1 101 Switching\r\nA: 1\r\na: 2\r\n\r\n',
    )
    t.equal(bareHead(103, '', []), 'HTTP/1.1 103 \r\n\r\n')
    t.equal(
      bareHead(100, 'a\r\nX: y\0\x7f\x80\u2028b\té', []),
      'HTTP/1.1 100 a??X: y????b\té\r\n\r\n',
    )
  },
)

void tap.test('which answers can be passed on', async (t) => {
  const rows: [parts: Parameters<typeof incoming>[0], isUsable: boolean][] = [
    [{ statusCode: 200 }, true],
    [{ statusCode: 599, httpVersion: '1.0' }, true],
    [{ statusCode: 200, fields: ['Transfer-Encoding: Chunked'] }, true],
    [{}, false],
    [{ statusCode: 0 }, false],
    [{ statusCode: 199 }, false],
    [{ statusCode: 600 }, false],
    [{ statusCode: 200, httpVersion: '2.0' }, false],
    [{ statusCode: 200, httpVersion: '0.9' }, false],
    [{ statusCode: 200, fields: ['Transfer-Encoding: gzip, chunked'] }, false],
    [{ statusCode: 200, fields: ['Transfer-Encoding: chunked', 'Transfer-Encoding: x'] }, false],
    [{ statusCode: 200, fields: ['Transfer-Encoding: identity'] }, false],
  ]
  for (const [parts, isUsable] of rows) {
    t.equal(whyUnusable(incoming(parts)) === undefined, isUsable, JSON.stringify(parts))
  }
})

const HINTS = {
  statusCode: 103,
  statusMessage: 'Early\r\nHints',
  rawHeaders: ['Link', '</é>', 'Content-Length', '5', 'Connection', 'x-hop', 'X-Hop', '1'],
}

void tap.test('an interim answer goes on without the fields of its hop, in latin1', async (t) => {
  const [near, far] = await openSocketPair(t)
  const client = rawClientOf(far)
  const request = requestOn(near)
  const response = new ServerResponse(request)
  response.assignSocket(near)
  relayInterim(response, request, HINTS)
  t.equal(await client.until('\r\n\r\n'), 'HTTP/1.1 103 Early??Hints\r\nLink: </é>\r\n\r\n')
})

void tap.test(
  'no interim answer for HTTP/1.0, behind the head, to who is gone or does not read',
  async (t) => {
    const [near, far] = await openSocketPair(t)
    const client = rawClientOf(far, true)
    const request = requestOn(near)
    const unassigned = new ServerResponse(request)
    relayInterim(unassigned, request, HINTS)
    const response = new ServerResponse(request)
    response.assignSocket(near)
    relayInterim(response, incoming({ httpVersion: '1.0' }), HINTS)
    t.equal(near.bytesWritten, 0)
    for (let i = 0; i < 200_000; i++) relayInterim(response, request, HINTS)
    t.ok(
      near.writableLength < 100_000,
      'a flood of them is not kept for a client that does not read',
    )
    const { bytesWritten } = near
    response.writeHead(200)
    relayInterim(response, request, HINTS)
    t.equal(near.bytesWritten, bytesWritten)
    near.destroy()
    t.doesNotThrow(() => relayInterim(response, request, HINTS))
    client.reset()
  },
)

void tap.test('a head goes out before its body, in latin1', async (t) => {
  const [near, far] = await openSocketPair(t)
  const client = rawClientOf(far)
  const response = new ServerResponse(requestOn(near))
  response.assignSocket(near)
  response.writeHead(200, ['X-Name', '\xe9\xff', 'Content-Length', '2'])
  flushHead(response)
  await client.until('\r\n\r\n')
  t.match(client.text, 'X-Name: \xe9\xff\r\n')
})
