/** What a technique comes to in a run that is not sealed. */
export type Expected =
  /** It gets out: so it would be seen if a seal failed. */
  | 'out'
  /** It cannot even there, for this reason. */
  | { readonly kept: string }
  /** It is not tried there, for this reason. */
  | { readonly left: string }

/** One way to get out of a sandbox: a small program that is run inside. In a sealed run none gets out. */
export interface Technique {
  readonly name: string
  /** What runs it. Node.js programs have {@link NODE_PRELUDE} before them. */
  readonly by: 'sh' | 'node' | 'perl' | 'python3'
  /**
   * The program. It finds the facts in its environment. It got out if it prints the mark, which only the far sides
   * know, or a line that begins with `OUT`.
   */
  readonly script: string
  /** In a run with `--door advisory`. */
  readonly advisory: Expected
  /** In a privileged container with a proxy that allows everything. */
  readonly open: Expected
  /**
   * In a process of this machine that is sealed by `wrap`, which seals its network alone. Default: it is tried, and none gets
   * out.
   */
  readonly process?: { readonly left: string }
  /** Behind a door whose policy denies next to nothing. Default: it cannot even there. */
  readonly careless?: 'out'
}

/** What techniques know, as environment variables. */
export interface Facts {
  /** The outside world, on the engine's default bridge: where every container is that nobody seals. */
  readonly OUTSIDE: string
  readonly OUTSIDE6: string
  /** Addresses of this machine: on the default bridge, on the bridge of the outside world, and one that is on none. */
  readonly BRIDGE: string
  readonly GATEWAY: string
  readonly HOST: string
  /** Ports of this machine: on every address, on loopback alone, of UDP. */
  readonly HOST_PORT: string
  readonly LOOPBACK_PORT: string
  readonly UDP_PORT: string
  /** Listening sockets of this machine. */
  readonly ABSTRACT: string
  readonly UNIX_PATH: string
  /** A file of this machine that holds the mark, and a process that does, in arguments and environment. */
  readonly SECRET_FILE: string
  readonly PROCESS: string
  /** Stand-ins where the real ones could be reached: in a run that is not sealed they are the outside world. */
  readonly METADATA: string
  readonly METADATA6: string
  readonly NAMESERVER: string
  /** The run store, and a run in it. */
  readonly ITERION_HOME: string
  readonly OTHER_RUN: string
  /** The folder of the test on this machine: what is bound from it comes from the host. */
  readonly DESK: string
}

/** Helpers of the programs for Node.js. */
export const NODE_PRELUDE = String.raw`
const E = process.env
const say = (text) => process.stdout.write(String(text) + '\n')
const talk = (where, text = '') => {
  const socket = require('node:net').connect(where)
  socket.on('error', (error) => say(error.code))
  socket.on('data', (data) => say(data))
  socket.setTimeout(1500, () => socket.destroy())
  socket.write(text)
  return socket
}
const auth = E.PROXY_AUTH ? 'Proxy-Authorization: ' + E.PROXY_AUTH + '\r\n' : ''
/** Sends a text to the proxy: {auth} stands where a token goes. */
const proxy = (text) =>
  talk({ host: E.PROXY_HOST, port: Number(E.PROXY_PORT) }, text.replaceAll('{auth}', auth))
/** Opens a tunnel and sends a text through it. */
const tunnel = (target, text, host = target) => {
  const socket = proxy('CONNECT ' + target + ' HTTP/1.1\r\nHost: ' + host + '\r\n{auth}\r\n')
  socket.once('data', (head) => {
    if (/^HTTP\/1.1 200/.test(head)) typeof text === 'function' ? text(socket) : socket.write(text)
  })
}
const datagram = (port, host, text, type = 'udp4') => {
  const socket = require('node:dgram').createSocket(type)
  socket.on('message', (message) => say(message))
  socket.on('error', (error) => say(error.code))
  socket.send(text, port, host, (error) => error && say(error.code))
  setTimeout(() => socket.close(), 1000)
}
/** A DNS question for the text of a name. */
const question = (name) => Buffer.concat([
  Buffer.from([7, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0]),
  ...name.split('.').map((label) => Buffer.from([label.length, ...Buffer.from(label)])),
  Buffer.from([0, 0, 16, 0, 1]),
])
`
