// Runs a command while a server of the sandbox itself listens, which any page may read: with-server.js PORT COMMAND....
const { spawn } = require('node:child_process')
const { createServer } = require('node:http')

const [port, command, ...args] = process.argv.slice(2)
const server = createServer((_, response) => {
  response.setHeader('Access-Control-Allow-Origin', '*')
  response.end('served inside')
})
server.listen(Number(port), '127.0.0.1', () => {
  const child = spawn(command, args, { stdio: 'inherit' })
  child.on('close', (code) => process.exit(code ?? 1))
})
