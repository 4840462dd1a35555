// Servers of a sandbox itself, on the ports of the door: own-servers.js. Prints a JSON object with what was reached.
const { connect, createServer } = require('node:net')
const events = require('node:events')

const PORTS = [80, 443, 5432]
/** What a client of PostgreSQL says first, to be answered by one letter. */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47])

/** What a server says to a client that says `words`, or why there is none. */
function ask(host, port, words = '') {
  return new Promise((resolve) => {
    const socket = connect(port, host)
    socket.setTimeout(5_000, () => socket.destroy(new Error('silence')))
    socket.on('error', (error) => resolve(error.code ?? error.message))
    socket.once('data', (data) => {
      resolve(data.toString())
      socket.destroy()
    })
    socket.write(words)
  })
}

const askAll = (host) => Promise.all(PORTS.map((port) => ask(host, port)))

/** Servers outside that are reached while the ports are taken inside. */
const outside = async () => [
  await (await fetch('http://web.allowed.test/file')).text(),
  await (await fetch('https://web.allowed.test/file')).text(),
  await ask('db.allowed.test', 5432, SSL_REQUEST),
]

async function main() {
  const found = { closed: await askAll('127.0.0.1'), noRule: await ask('web.allowed.test', 99) }
  for (const address of ['0.0.0.0', '127.0.0.1', '::']) {
    const servers = PORTS.map((port) =>
      createServer((socket) => {
        socket.on('error', () => undefined)
        socket.end(`own ${port}`)
      }).listen(port, address),
    )
    try {
      await Promise.all(servers.map((server) => events.once(server, 'listening')))
      found[address] = { own: await askAll('127.0.0.1'), outside: await outside() }
    } catch (error) {
      found[address] = error.code
    }
    for (const server of servers) server.close()
  }
  found.closedAgain = await askAll('127.0.0.1')
  process.stdout.write(JSON.stringify(found))
}

void main()
