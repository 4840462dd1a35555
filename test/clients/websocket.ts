import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { inspect } from 'node:util'
import tap from 'tap'
import { ProxyAgent, WebSocket } from 'undici'
import { pages } from '../support/clients/fetches.ts'
import { versionOfPackage } from '../support/clients/node-client.ts'
import { lacks } from '../support/clients/program.ts'
import { holdRecord } from '../support/clients/record.ts'
import { openStage, refused } from '../support/clients/stage.ts'
import {
  acceptKey,
  clientMessage,
  echoWebSocket,
  serverMessage,
} from '../support/clients/websocket-echo.ts'

const HOST = 'chat.allowed.test'
const DENIED = 'evil.denied.test'
const DENIED_BY_HAND = 'hand.denied.test'
const WAIT_MS = 20_000

await tap.test('WebSocket', { skip: lacks('openssl') }, async (t) => {
  const stage = await openStage(t, {
    allowed: [HOST],
    denied: [DENIED, DENIED_BY_HAND],
    service: { ...pages, upgrade: echoWebSocket },
    token: 'websocket-token',
  })
  const { ca } = stage.authority
  const dispatcher = new ProxyAgent({ uri: stage.egress.proxyUrl, requestTls: { ca } })
  t.teardown(() => dispatcher.destroy())

  /** Sends three messages, one after the answer to the other, and closes. */
  const converse = (url: string) =>
    new Promise<string[]>((resolve, reject) => {
      const socket = new WebSocket(url, { dispatcher })
      const timer = setTimeout(() => reject(new Error('no answer')), WAIT_MS)
      const answers: string[] = []
      socket.addEventListener('open', () => socket.send('one'))
      socket.addEventListener('message', ({ data }) => {
        answers.push(String(data))
        if (answers.length < 3) socket.send(['two', 'three'][answers.length - 1] ?? '')
        else socket.close()
      })
      socket.addEventListener('error', ({ error }) => {
        clearTimeout(timer)
        reject(error)
      })
      socket.addEventListener('close', () => {
        clearTimeout(timer)
        resolve(answers)
      })
    })

  for (const scheme of ['wss', 'ws']) {
    await t.test(`undici talks over ${scheme}`, async (sub) => {
      sub.strictSame(await converse(`${scheme}://${HOST}/chat`), ['one', 'two', 'three'])
    })
  }

  for (const [scheme, column, port] of [
    ['wss', 'connect', 443],
    ['ws', 'plain', 80],
  ] as const) {
    await t.test(`undici is refused ${scheme}`, async (sub) => {
      const expected = { host: DENIED, port, via: 'connect', reason: 'no-rule' } as const
      const text = await refused(sub, stage, expected, () =>
        converse(`${scheme}://${DENIED}/chat`).then(
          () => 'no error',
          (error: unknown) => inspect(error),
        ),
      )
      const client = { name: 'undici WebSocket', version: versionOfPackage('undici') }
      holdRecord(sub, client, column, { outcome: 'throws', text, host: DENIED, port })
    })
  }

  /** Asks the proxy for a WebSocket in absolute form; gives all that came until `isWhole`. */
  const handshake = async (host: string, isWhole: (text: string) => boolean): Promise<string> => {
    const { hostname, port, username, password } = new URL(stage.egress.proxyUrl)
    const socket = connect(Number(port), hostname)
    let text = ''
    socket.setEncoding('latin1').on('data', (chunk: string) => {
      text += chunk
    })
    socket.on('error', () => socket.destroy())
    const token = Buffer.from(`${username}:${password}`).toString('base64')
    const fields = [
      `Host: ${host}`,
      `Proxy-Authorization: Basic ${token}`,
      'Upgrade: websocket',
      'Connection: Upgrade',
      'Sec-WebSocket-Version: 13',
      'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
    ]
    socket.write(`GET http://${host}/chat HTTP/1.1\r\n${fields.join('\r\n')}\r\n\r\n`)
    socket.write(clientMessage('by hand'))
    const until = Date.now() + WAIT_MS
    while (!isWhole(text) && Date.now() < until) await sleep(20)
    socket.destroy()
    return text
  }

  await t.test('a handshake by hand opens ws through the forward path', async (sub) => {
    const echo = serverMessage('by hand').toString('latin1')
    const text = await handshake(HOST, (so) => so.endsWith(echo))
    sub.match(text, /^HTTP\/1\.1 101 /)
    sub.match(text, `ec-WebSocket-Accept: ${acceptKey('dGhlIHNhbXBsZSBub25jZQ==')}`)
    sub.ok(text.endsWith(echo), 'the message came back')
  })

  await t.test('a handshake by hand is refused with the whole answer', async (sub) => {
    const expected = { host: DENIED_BY_HAND, port: 80, via: 'forward', reason: 'no-rule' } as const
    const text = await refused(sub, stage, expected, () =>
      handshake(DENIED_BY_HAND, (so) => so.includes('a rule that would allow it')),
    )
    sub.match(text, `HTTP/1.1 403 egress denied: no rule allows ${DENIED_BY_HAND}:80\r\n`)
    sub.match(text, 'X-Iterion-Reason: no-rule\r\n')
    sub.match(text, `a rule that would allow it: "${DENIED_BY_HAND}:80"`)
  })
})
