import type { AddressInfo, Server } from 'node:net'
import { networkInterfaces } from 'node:os'
import { classifyIp } from '../policy/address-kind.ts'
import { type IpAddress, parseIpv4, parseIpv6, sameIp, unmap } from '../policy/address.ts'
import type { LocalAddresses } from '../policy/vet.ts'

/** How long the list of this machine's addresses is good for, in milliseconds. */
const REFRESH_MS = 1_000

/** Reads an address that Node or the system gives, without its zone. */
export function parseSystemAddress(text: string): IpAddress | undefined {
  const plain = text.split('%')[0] ?? ''
  const ip = parseIpv4(plain) ?? parseIpv6(plain)
  return ip && unmap(ip)
}

/** This machine's addresses, and the proxy's own listeners among them. */
export class HostAddresses implements LocalAddresses {
  readonly #listeners = new Map<Server, { ip: IpAddress; port: number }>()
  readonly #now: () => number
  #own: readonly IpAddress[] = []
  #readAt = -Infinity

  constructor(now: () => number) {
    this.#now = now
  }

  /** Remembers a listening server. Sockets that are no TCP listeners have no address to loop to. */
  addListener(server: Server): void {
    const address: AddressInfo | string | null = server.address()
    if (address === null || typeof address === 'string') return
    const ip = parseSystemAddress(address.address)
    if (ip) this.#listeners.set(server, { ip, port: address.port })
  }

  removeListener(server: Server): void {
    this.#listeners.delete(server)
  }

  isOwn(ip: IpAddress): boolean {
    if (classifyIp(ip).kind === 'loopback' || isUnspecified(ip)) return true
    const now = this.#now()
    if (now - this.#readAt > REFRESH_MS || now < this.#readAt) {
      this.#own = Object.values(networkInterfaces())
        .flatMap((list) => list ?? [])
        .map(({ address }) => parseSystemAddress(address))
        .filter((one) => one !== undefined)
      this.#readAt = now
    }
    return this.#own.some((one) => sameIp(one, ip))
  }

  isListener(ip: IpAddress, port: number): boolean {
    for (const listener of this.#listeners.values()) {
      if (listener.port !== port) continue
      if (sameIp(listener.ip, ip)) return true
      if ((isUnspecified(listener.ip) || isUnspecified(ip)) && this.isOwn(ip)) return true
    }
    return false
  }
}

function isUnspecified(ip: IpAddress): boolean {
  return ip.words.every((word) => word === 0)
}
