import { createServer, type Server } from 'node:net'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import tap from 'tap'
import { formatIp } from '../../src/policy/address.ts'
import { HostAddresses, parseSystemAddress } from '../../src/proxy/local-addresses.ts'

const ip = (text: string) => {
  const found = parseSystemAddress(text)
  if (!found) throw new Error(text)
  return found
}

/** A server that says it listens there. */
const serverAt = (address: string, port: number) =>
  ({ address: () => ({ address, port, family: 'IPv4' }) }) as unknown as Server

void tap.test('addresses as the system writes them', async (t) => {
  const rows: [text: string, shown: string | undefined][] = [
    ['192.0.2.1', '192.0.2.1'],
    ['2001:DB8::1', '2001:db8::1'],
    ['fe80::1%eth0', 'fe80::1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['::ffff:c000:201', '192.0.2.1'],
    ['', undefined],
    ['%eth0', undefined],
    ['localhost', undefined],
    ['0x7f.0.0.1', undefined],
    ['[::1]', undefined],
  ]
  for (const [text, shown] of rows) {
    const found = parseSystemAddress(text)
    t.equal(found && formatIp(found), shown, text)
  }
})

void tap.test('this machine: loopback, the unspecified address, and its interfaces', async (t) => {
  const local = new HostAddresses(() => 0)
  for (const text of ['127.0.0.1', '127.9.9.9', '::1', '0.0.0.0', '::', '::ffff:127.0.0.1']) {
    t.ok(local.isOwn(ip(text)), text)
  }
  for (const list of Object.values(networkInterfaces())) {
    for (const { address } of list ?? []) t.ok(local.isOwn(ip(address)), address)
  }
  for (const text of ['192.0.2.77', '8.8.8.8', '2001:db8::77']) t.notOk(local.isOwn(ip(text)), text)
})

void tap.test(
  'listeners, by the address they have and by every address that leads there',
  async (t) => {
    const local = new HostAddresses(() => 0)
    local.addListener(serverAt('127.0.0.1', 3128))
    t.ok(local.isListener(ip('127.0.0.1'), 3128))
    t.ok(local.isListener(ip('::ffff:127.0.0.1'), 3128))
    t.ok(local.isListener(ip('0.0.0.0'), 3128), 'connecting to it goes to loopback')
    t.notOk(local.isListener(ip('127.0.0.1'), 3129))
    t.notOk(local.isListener(ip('127.0.0.2'), 3128), 'nobody listens there')
    t.notOk(local.isListener(ip('192.0.2.77'), 3128))

    for (const everywhere of ['0.0.0.0', '::']) {
      const all = new HostAddresses(() => 0)
      all.addListener(serverAt(everywhere, 3128))
      for (const text of ['127.0.0.1', '127.8.8.8', '::1', '0.0.0.0', '::']) {
        t.ok(all.isListener(ip(text), 3128), `${everywhere} ${text}`)
      }
      for (const list of Object.values(networkInterfaces())) {
        for (const { address } of list ?? []) t.ok(all.isListener(ip(address), 3128), address)
      }
      t.notOk(all.isListener(ip('8.8.8.8'), 3128))
    }
  },
)

void tap.test('a listener is forgotten with its server', async (t) => {
  const local = new HostAddresses(() => 0)
  const [one, other] = [serverAt('127.0.0.1', 1), serverAt('127.0.0.1', 2)]
  local.addListener(one)
  local.addListener(other)
  local.removeListener(one)
  t.notOk(local.isListener(ip('127.0.0.1'), 1))
  t.ok(local.isListener(ip('127.0.0.1'), 2))
})

void tap.test('a real server, one that does not listen, and one on a unix socket', async (t) => {
  const local = new HostAddresses(() => 0)
  const server = createServer()
  local.addListener(server)
  t.notOk(local.isListener(ip('127.0.0.1'), 0))
  const onUnix = createServer()
  t.teardown(() => {
    server.close()
    onUnix.close()
  })
  const path = join(tmpdir(), `egress-${process.pid}-listener`)
  await new Promise<void>((resolve) => onUnix.listen(path, resolve))
  t.doesNotThrow(() => local.addListener(onUnix))
  await new Promise<void>((resolve) => server.listen(0, '::1', resolve))
  local.addListener(server)
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no address')
  t.ok(local.isListener(ip('::1'), address.port))
})

void tap.test(
  'the list of interfaces is read again after a second, and when the clock goes back',
  async (t) => {
    let reads = 0
    let time = 10_000
    const { HostAddresses: Mocked } = await t.mockImport<
      typeof import('../../src/proxy/local-addresses.ts')
    >('../../src/proxy/local-addresses.ts', {
      'node:os': {
        networkInterfaces: () => {
          reads++
          return { eth0: [{ address: `192.0.2.${reads}` }], gone: undefined }
        },
      },
    })
    const local = new Mocked(() => time)
    t.ok(local.isOwn(ip('192.0.2.1')))
    time += 1_000
    t.ok(local.isOwn(ip('192.0.2.1')))
    t.equal(reads, 1)
    time += 1
    t.ok(local.isOwn(ip('192.0.2.2')), 'a new address is known a second later')
    t.notOk(local.isOwn(ip('192.0.2.1')))
    time = 0
    t.ok(local.isOwn(ip('192.0.2.3')), 'a clock that goes back does not freeze the list')
  },
)
