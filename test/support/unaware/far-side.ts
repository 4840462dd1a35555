import { once } from 'node:events'
import { createSecureServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { type Authority, createAuthority } from '../clients/authority.ts'
import { debRepository } from '../clients/deb-repository.ts'
import { page } from '../clients/fetches.ts'
import { gitService } from '../clients/git-service.ts'
import { npmRegistry } from '../clients/npm-registry.ts'
import { makeServedRepository } from '../clients/served-repository.ts'
import { type Service, startUpstream } from '../clients/upstream.ts'
import { echoWebSocket } from '../clients/websocket-echo.ts'
import { wheelIndex } from '../clients/wheel-index.ts'
import { shortFolder } from '../docker.ts'
import { type FarServers, startFarServers } from './far-servers.ts'

/** A name that no rule allows. It leads to the servers as well, so that a leak would be seen there. */
export const DENIED = 'evil.denied.test'
/** A name that is allowed on the usual ports alone. */
export const WEB = 'web.allowed.test'
/** A port that is another name's: what connects to {@link WEB} there is refused by the proxy. */
export const OTHER_PORT = 8443

export const RULES = [
  '"*.allowed.test"',
  'git.allowed.test:22',
  'db.allowed.test:5432',
  `other.allowed.test:${OTHER_PORT}`,
].join(', ')

/** All that programs in a sandbox are clients of. */
export interface FarSide extends FarServers {
  readonly authority: Authority
  /** Values of `--resolve`. */
  readonly resolve: readonly string[]
  /** How many connections came to the servers for HTTP. */
  readonly connections: () => number
}

/** The port of a server inside that a page asks. */
export const INSIDE_PORT = 8000

/** Says whether it runs, and what it is told by another host, and by a server of the sandbox itself. */
const BROWSED = `<!doctype html><p id="own">not run</p><p id="other">-</p><p id="inside">-</p><p id="online">-</p><script>
document.getElementById('own').textContent = 'run'
document.getElementById('online').textContent = navigator.onLine
const ask = (id, url) => fetch(url).then((answer) => answer.text(), () => 'refused').then((text) => {
  document.getElementById(id).textContent = text.trim()
})
ask('other', 'https://api.allowed.test/other')
ask('inside', 'http://127.0.0.1:${INSIDE_PORT}/')
</script>`

/** Pages. Any page of another host may read them. */
const pages: Service = {
  request: ({ url = '', headers }, response) => {
    response.setHeader('Access-Control-Allow-Origin', '*')
    if (url === '/browsed') response.setHeader('Content-Type', 'text/html')
    response.end(url === '/browsed' ? BROWSED : page(headers.host ?? '', url))
  },
  upgrade: echoWebSocket,
}

/** Starts all of it; it ends with the test. */
export async function startFarSide(t: Test): Promise<FarSide> {
  const folder = shortFolder(t)
  const authority = createAuthority(folder)
  const repository = await makeServedRepository(t)
  const services: Record<string, Service> = {
    'git.allowed.test': gitService(repository.root),
    'registry.allowed.test': npmRegistry(t),
    'index.allowed.test': wheelIndex(t).service,
    'archive.allowed.test': await debRepository(t),
  }
  const upstream = await startUpstream(t, authority, {
    ...pages,
    request: (request, response) =>
      (services[request.headers.host ?? ''] ?? pages).request(request, response),
  })
  const second = await startHttp2(t, authority)
  const far = await startFarServers(t, { folder, repositories: repository.root }, authority)
  const names = [...Object.keys(services), WEB, 'api.allowed.test', DENIED]
  return {
    ...far,
    authority,
    resolve: [
      ...names.flatMap((name) => [
        `${name}:443:127.0.0.1:${upstream.tlsPort}`,
        `${name}:80:127.0.0.1:${upstream.plainPort}`,
      ]),
      `h2.allowed.test:443:127.0.0.1:${second.port}`,
      ...['git.allowed.test', 'db.allowed.test', WEB, DENIED].flatMap((name) =>
        [22, 5432].map((port) => `${name}:${port}:${far.address}:${port}`),
      ),
      ...[WEB, DENIED].map((name) => `${name}:${OTHER_PORT}:127.0.0.1:${upstream.tlsPort}`),
    ],
    connections: () => upstream.connections() + second.connections(),
  }
}

/** A server that speaks HTTP/2 and nothing else. */
async function startHttp2(
  t: Test,
  { key, cert }: Authority,
): Promise<{ readonly port: number; readonly connections: () => number }> {
  const server = createSecureServer({ key, cert })
  let connections = 0
  server.on('secureConnection', () => connections++)
  server.on('sessionError', () => undefined)
  server.on('stream', (stream, headers) => {
    stream.on('error', () => undefined)
    stream.end(page(headers[':authority'] ?? '', headers[':path'] ?? ''))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.teardown(() => server.close())
  return { port: (server.address() as AddressInfo).port, connections: () => connections }
}
