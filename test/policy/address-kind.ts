import tap from 'tap'
import { type AddressKind, classifyIp, embeddedIpv4 } from '../../src/policy/address-kind.ts'
import {
  formatCidr,
  formatIp,
  type IpAddress,
  parseIpv4,
  parseIpv6,
} from '../../src/policy/address.ts'

function ip(text: string): IpAddress {
  const address = parseIpv4(text) ?? parseIpv6(text)
  if (address === undefined) throw new Error(text)
  return address
}

const TABLE: [first: string, last: string, kind: AddressKind, floor: string | undefined][] = [
  ['0.0.0.0', '0.255.255.255', 'reserved', '0.0.0.0/8'],
  ['1.0.0.0', '9.255.255.255', 'public', undefined],
  ['10.0.0.0', '10.255.255.255', 'private', '10.0.0.0/8'],
  ['11.0.0.0', '100.63.255.255', 'public', undefined],
  ['100.64.0.0', '100.127.255.255', 'shared', '100.64.0.0/10'],
  ['100.128.0.0', '126.255.255.255', 'public', undefined],
  ['127.0.0.0', '127.255.255.255', 'loopback', '127.0.0.0/8'],
  ['128.0.0.0', '169.253.255.255', 'public', undefined],
  ['169.254.0.0', '169.254.255.255', 'link-local', '169.254.0.0/16'],
  ['169.255.0.0', '172.15.255.255', 'public', undefined],
  ['172.16.0.0', '172.31.255.255', 'private', '172.16.0.0/12'],
  ['172.32.0.0', '191.255.255.255', 'public', undefined],
  ['192.0.0.0', '192.0.0.8', 'reserved', '192.0.0.0/24'],
  ['192.0.0.9', '192.0.0.10', 'public', undefined],
  ['192.0.0.11', '192.0.0.191', 'reserved', '192.0.0.0/24'],
  ['192.0.0.193', '192.0.0.255', 'reserved', '192.0.0.0/24'],
  ['192.0.1.0', '192.0.1.255', 'public', undefined],
  ['192.0.2.0', '192.0.2.255', 'documentation', '192.0.2.0/24'],
  ['192.0.3.0', '192.88.98.255', 'public', undefined],
  ['192.88.99.0', '192.88.99.255', 'reserved', '192.88.99.0/24'],
  ['192.88.100.0', '192.167.255.255', 'public', undefined],
  ['192.168.0.0', '192.168.255.255', 'private', '192.168.0.0/16'],
  ['192.169.0.0', '198.17.255.255', 'public', undefined],
  ['198.18.0.0', '198.19.255.255', 'benchmarking', '198.18.0.0/15'],
  ['198.20.0.0', '198.51.99.255', 'public', undefined],
  ['198.51.100.0', '198.51.100.255', 'documentation', '198.51.100.0/24'],
  ['203.0.113.0', '203.0.113.255', 'documentation', '203.0.113.0/24'],
  ['203.0.114.0', '223.255.255.255', 'public', undefined],
  ['224.0.0.0', '239.255.255.255', 'multicast', '224.0.0.0/4'],
  ['240.0.0.0', '255.255.255.255', 'reserved', '240.0.0.0/4'],
  ['::', '::', 'reserved', '::/128'],
  ['::1', '::1', 'loopback', '::1'],
  ['64:ff9b:1::', '64:ff9b:1:ffff:ffff:ffff:ffff:ffff', 'reserved', '64:ff9b:1::/48'],
  ['100::', '100::ffff:ffff:ffff:ffff', 'reserved', '100::/64'],
  ['100:0:0:1::', '100::1:ffff:ffff:ffff:ffff', 'reserved', '100:0:0:1::/64'],
  ['100:0:0:2::', '1fff:ffff::', 'reserved', undefined],
  ['2001:1::1', '2001:1::3', 'public', undefined],
  ['2001:1::4', '2001:1:ffff::', 'reserved', '2001::/23'],
  ['2001:2::', '2001:2:0:ffff:ffff:ffff:ffff:ffff', 'benchmarking', '2001:2::/48'],
  ['2001:2:1::', '2001:2:ffff::', 'reserved', '2001::/23'],
  ['2001:3::', '2001:3:ffff:ffff:ffff:ffff:ffff:ffff', 'public', undefined],
  ['2001:4:112::', '2001:4:112:ffff::', 'public', undefined],
  ['2001:4:113::', '2001:1f:ffff::', 'reserved', '2001::/23'],
  ['2001:20::', '2001:3f:ffff:ffff:ffff:ffff:ffff:ffff', 'public', undefined],
  ['2001:40::', '2001:1ff:ffff:ffff:ffff:ffff:ffff:ffff', 'reserved', '2001::/23'],
  ['2001:200::', '2001:db7:ffff::', 'public', undefined],
  ['2001:db8::', '2001:db8:ffff:ffff:ffff:ffff:ffff:ffff', 'documentation', '2001:db8::/32'],
  ['2003::', '3ffe:ffff::', 'public', undefined],
  ['3fff::', '3fff:fff:ffff:ffff:ffff:ffff:ffff:ffff', 'documentation', '3fff::/20'],
  ['3fff:1000::', '3fff:ffff::', 'public', undefined],
  ['4000::', '5fff::', 'reserved', undefined],
  ['fc00::', 'fdff:ffff::', 'private', 'fc00::/7'],
  ['fe00::', 'fe7f:ffff::', 'reserved', undefined],
  ['fe80::', 'febf:ffff::', 'link-local', 'fe80::/10'],
  ['fec0::', 'feff:ffff::', 'reserved', 'fec0::/10'],
  ['ff00::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff', 'multicast', 'ff00::/8'],
]

void tap.test('each range of the floor begins and ends where the registries say', async (t) => {
  for (const [first, last, kind, floor] of TABLE) {
    for (const text of [first, last]) {
      const found = classifyIp(ip(text))
      t.equal(found.kind, kind, text)
      t.equal(
        found.floor && formatCidr(found.floor),
        floor?.replace('/128', ''),
        `floor of ${text}`,
      )
    }
  }
})

void tap.test('credential services of clouds are metadata, their neighbours are not', async (t) => {
  const all = [
    '169.254.169.254',
    '169.254.169.253',
    '169.254.170.2',
    '169.254.170.23',
    '169.254.42.42',
  ]
  const more = ['168.63.129.16', '100.100.100.200', '192.0.0.192', 'fd00:ec2::254', 'fd00:ec2::253']
  for (const text of [...all, ...more, 'fd00:ec2::23', 'fd00:42::42', 'fd20:ce::254']) {
    const address = ip(text)
    t.strictSame(classifyIp(address), { kind: 'metadata' }, text)
    const words = [...address.words]
    words[words.length - 1] = (words.at(-1) ?? 0) + 2
    t.not(classifyIp({ family: address.family, words }).kind, 'metadata', `behind ${text}`)
  }
})

void tap.test('IPv4 inside IPv6 is found in each of its forms, and judged', async (t) => {
  const forms: [name: string, make: (high: string, low: string) => string][] = [
    ['NAT64', (high, low) => `64:ff9b::${high}:${low}`],
    ['translated', (high, low) => `::ffff:0:${high}:${low}`],
    ['compatible', (high, low) => `::${high}:${low}`],
    ['6to4', (high, low) => `2002:${high}:${low}::`],
    ['6to4 with an interface', (high, low) => `2002:${high}:${low}:1::5`],
    ['Teredo server', (high, low) => `2001:0:${high}:${low}::f7f7:f7f7`],
    ['Teredo client', (high, low) => `2001:0:808:808::${inverted(high)}:${inverted(low)}`],
  ]
  const inside: [string, string, AddressKind][] = [
    ['808', '808', 'public'],
    ['a9fe', 'a9fe', 'metadata'],
    ['a00', '1', 'private'],
    ['7f00', '1', 'loopback'],
    ['e000', '1', 'multicast'],
    ['ffff', 'ffff', 'reserved'],
  ]
  for (const [name, make] of forms) {
    for (const [high, low, kind] of inside) {
      const address = ip(make(high, low))
      t.strictSame(classifyIp(address), { kind }, `${name} ${formatIp(address)}`)
    }
  }
  t.strictSame(embeddedIpv4(ip('2001:db8::1')), [])
  t.strictSame(embeddedIpv4(ip('1.2.3.4')), [])
  t.strictSame(embeddedIpv4(ip('::1')), [], 'loopback carries nothing')
  t.strictSame(embeddedIpv4(ip('::')), [])
})

function inverted(hex: string): string {
  return (0xffff - parseInt(hex, 16)).toString(16)
}

void tap.test('of two addresses inside, the worse one counts', async (t) => {
  t.equal(classifyIp(ip('2001:0:a00:1::5601:5601')).kind, 'metadata')
  t.equal(classifyIp(ip('2001:0:a00:1::f7f7:f7f7')).kind, 'private')
  t.equal(classifyIp(ip('2001:0:808:808::f5ff:fffe')).kind, 'private')
})

void tap.test('a mapped address that nobody unwrapped is not public', async (t) => {
  t.equal(classifyIp(ip('::ffff:808:808')).kind, 'reserved')
})
