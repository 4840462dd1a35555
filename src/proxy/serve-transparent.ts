import type { Socket } from 'node:net'
import type { IpAddress } from '../policy/address.ts'
import { type Host, ipHost } from '../policy/host.ts'
import type { Target } from '../policy/target.ts'
import { type AddressNames, byName } from './address-names.ts'
import { admit, type ProxyCore, recordRefusal } from './core.ts'
import { closeWithin, phraseOf, type Refusal } from './refuse.ts'
import { resetSocket } from './relay.ts'
import { NO_HEAD } from './request-head.ts'
import { SSH_PORT, sshRefusal } from './socks.ts'
import { openTunnel, type ServeHttp } from './tunnel.ts'

/** Where a client connected to that knows of no proxy. */
export interface Destination {
  readonly ip: IpAddress
  readonly port: number
}

/** Serves a connection of a client that knows of no proxy: a CONNECT without its head, for where it connected to. */
export async function serveTransparent(
  core: ProxyCore,
  client: Socket,
  destination: Destination,
  serveHttp: ServeHttp,
): Promise<void> {
  const { ip, port } = destination
  const target: Target = { scheme: 'tcp', host: ipHost(ip), port, via: 'transparent' }
  const head = byName(core.names, { kind: 'target', target, path: '' })
  if (head.kind === 'target') holdName(core.names, client, head.target.host)
  const admitted = admit(core, NO_HEAD, { via: 'transparent', isTrusted: true, read: () => head })
  await openTunnel(core, client, admitted, {
    serveHttp,
    establish: () => undefined,
    refuse(refused) {
      recordRefusal(core, refused)
      refuseTransparent(client, refused)
    },
  })
}

/**
 * A reset: no word would be understood. Clients of SSH alone wait for words of the server, and print them; but what
 * failed behind the proxy is a reset for them too, as it is on every other port.
 */
function refuseTransparent(client: Socket, refused: Refusal): void {
  const { target, status } = refused
  const isSsh = target !== undefined && 'port' in target && target.port === SSH_PORT
  if (!isSsh || status !== 403 || !client.writable) {
    resetSocket(client)
    return
  }
  client.end(sshRefusal(phraseOf(refused)))
  closeWithin(client)
}

function holdName(names: AddressNames | undefined, client: Socket, host: Host): void {
  if (names === undefined || host.kind !== 'name' || client.destroyed) return
  const { name } = host
  if (names.hold(name)) client.once('close', () => names.release(name))
}
