// Says three words to a server that repeats them, over the WebSocket of Node.js: converse.js URL.
const socket = new WebSocket(process.argv[2])
const words = ['one', 'two', 'three']
socket.addEventListener('open', () => socket.send(words.shift()))
socket.addEventListener('message', ({ data }) => {
  process.stdout.write(`${data}\n`)
  if (words.length > 0) socket.send(words.shift())
  else socket.close()
})
socket.addEventListener('error', (event) => {
  process.stderr.write(`${event.message ?? event.type}\n`)
  process.exitCode = 1
})
