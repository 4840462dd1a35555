// The outside world: answers with the mark on every port, and says every contact. To the allowed name it says welcome.
const net = require('node:net')
const http = require('node:http')
const tls = require('node:tls')
const { MARK, KEY, CERT } = process.env
const say = (line) => process.stdout.write(`${line}\n`)
const ALLOWED = 'allowed.test'

const web = http.createServer((req, res) => {
  const isWelcome = req.headers.host === ALLOWED && req.url.endsWith('/allowed')
  const isTold = !req.socket.encrypted || req.socket.servername === ALLOWED
  say(`http ${req.headers.host} ${req.method} ${req.url}`)
  res.end(isWelcome && isTold ? 'welcome\n' : `${MARK}\n`)
})
web.on('clientError', (error, socket) => {
  say(`http error ${error.code}`)
  socket.destroy()
})

function answer(socket, port) {
  socket.on('error', () => undefined)
  const isWeb = port === 80 || port === 443
  // Of the ports of the allowed name only what is sent counts: a tunnel that is refused may have connected.
  if (!isWeb) {
    say(`tcp ${port}`)
    socket.write(`${MARK}\n`)
  }
  socket.once('readable', () => {
    const first = socket.read()
    if (first === null) return
    socket.unshift(first)
    if (isWeb && first[0] === 22) secure(socket)
    else if (/^[A-Z]+ /.test(first.toString('latin1'))) web.emit('connection', socket)
    else {
      say(`bytes ${port}`)
      socket.end(`${MARK}\n`)
    }
  })
}

function secure(socket) {
  const inside = new tls.TLSSocket(socket, {
    isServer: true,
    key: KEY,
    cert: CERT,
    SNICallback: (name, done) => {
      say(`tls ${name}`)
      done(null, null)
    },
  })
  inside.on('error', () => undefined)
  inside.once('secure', () => web.emit('connection', inside))
}

for (const port of [22, 25, 53, 80, 443, 7000, 8080]) {
  net.createServer((socket) => answer(socket, port)).listen(port, '::')
}
let bound = 0
for (const [port, type] of [
  [53, 'udp4'],
  [7000, 'udp4'],
  [7000, 'udp6'],
]) {
  const socket = require('node:dgram').createSocket({ type, ipv6Only: type === 'udp6' })
  socket.on('message', (message, { port: to, address }) => {
    say(`udp ${port}`)
    socket.send(`${MARK}\n`, to, address)
  })
  socket.bind(port, () => ++bound === 3 && say('ready'))
}
process.on('SIGTERM', () => process.exit(0))
