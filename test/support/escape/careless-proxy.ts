import { type AddressInfo, connect, createServer, isIP } from 'node:net'
import type { Test } from 'tap'
import type { World } from './far-side.ts'

/** The first line of a request: a tunnel, or a target in absolute form. */
const FIRST_LINE = /^(?:CONNECT |[A-Z]+ http:\/\/(?:[^@/ ]*@)?)(\[[^\]]+\]|[^:/ ]+)(?::(\d+))?/

/**
 * A proxy that decides nothing: it connects to whatever it is asked for and carries bytes. Spellings of this machine are
 * dialled as they are; every other host is the outside world.
 *
 * @returns its port on the default bridge
 */
export async function startCarelessProxy(t: Test, world: World): Promise<number> {
  const server = createServer((client) => {
    client.on('error', () => undefined)
    client.once('data', (head) => {
      const line = head.toString('latin1')
      const [, host = '', port = '80'] = FIRST_LINE.exec(line) ?? []
      const isTunnel = line.startsWith('CONNECT ')
      const upstream = connect({ host: placeOf(host, world), port: Number(port) }, () => {
        if (isTunnel) client.write('HTTP/1.1 200 OK\r\n\r\n')
        else upstream.write(head)
        client.pipe(upstream).pipe(client)
      })
      upstream.on('error', () => client.destroy())
      client.on('close', () => upstream.destroy())
    })
  })
  await new Promise<void>((resolve) => server.listen(0, world.bridge, resolve))
  t.teardown(() => server.close())
  return (server.address() as AddressInfo).port
}

function placeOf(text: string, { address, bridge }: World): string {
  const host = text.replaceAll(/[[\]]/g, '')
  if (host === 'loopback.inside.test') return '127.0.0.1'
  if (host === 'bridge.inside.test' || host === 'host.docker.internal') return bridge
  const isSpelling = isIP(host) !== 0 || /^[\dx.a-f]+$/.test(host) || host === 'localhost'
  return isSpelling ? host : address
}
