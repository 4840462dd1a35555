// A program of this machine that sandboxes must not reach: listens on everything a host has, and says every contact.
// Called with the ports, the names of the unix sockets (- for no file), and the mark, which is in its environment too.
const net = require('node:net')
const [, , port, loopbackPort, udpPort, abstract, path, mark] = process.argv
const say = (line) => process.stdout.write(`${line}\n`)

function listen(what, where) {
  const server = net.createServer((socket) => {
    say(what)
    socket.on('error', () => undefined)
    socket.resume()
    socket.end(`HTTP/1.0 200 OK\r\n\r\n${mark}\n`)
  })
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(where, resolve)
  })
}

async function listenUdp(type) {
  const socket = require('node:dgram').createSocket({ type, ipv6Only: type === 'udp6' })
  socket.on('message', (_, { port: to, address }) => {
    say('udp')
    socket.send(`${mark}\n`, to, address)
  })
  await new Promise((resolve) => socket.bind(Number(udpPort), resolve))
}

process.on('SIGUSR1', () => say('signal'))
process.on('SIGTERM', () => process.exit(0))
void Promise.all([
  listen('tcp', { port: Number(port), host: '::' }),
  listen('loopback', { port: Number(loopbackPort), host: '127.0.0.1' }),
  listen('loopback', { port: Number(loopbackPort), host: '::1' }),
  listen('abstract', { path: `\0${abstract}` }),
  ...(path === '-' ? [] : [listen('unix', { path })]),
  listenUdp('udp4'),
  listenUdp('udp6'),
]).then(() => say('ready'))
