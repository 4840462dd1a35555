import tap from 'tap'
import { decide } from '../../src/policy/decide.ts'
import type { IpAddress } from '../../src/policy/address.ts'
import { type LocalAddresses, vetAddress } from '../../src/policy/vet.ts'
import { AFTER, BEFORE, NOW, policyOf, targetOf, type Written } from '../support/policy-of.ts'

const OWN = '198.51.100.200'
const OWN_PUBLIC = '93.184.216.34'

function ip(text: string): IpAddress {
  const { host } = targetOf(text)
  if (host.kind !== 'ip') throw new Error(text)
  return host.ip
}

const LOCAL: LocalAddresses = {
  isOwn: ({ words }) => [OWN, OWN_PUBLIC, '127.0.0.1'].some((own) => ip(own).words[0] === words[0]),
  isListener: ({ words }, port) => port === 3128 && words[0] === ip(OWN).words[0],
}

type Row = [
  name: string,
  rules: Written[],
  target: string,
  address: string,
  reason: string | undefined,
  given?: boolean,
]

const TABLE: Row[] = [
  ['a public address may be dialled', ['a.test'], 'a.test', '1.2.3.4', undefined],
  ['a private address may not', ['a.test'], 'a.test', '10.0.0.5', 'special-address'],
  ['nor loopback', ['a.test'], 'a.test', '127.0.0.2', 'special-address'],
  ['nor link-local IPv6', ['a.test'], 'a.test', '[fe80::1]', 'special-address'],
  ['nor unique local IPv6', ['a.test'], 'a.test', '[fd00::1]', 'special-address'],
  [
    'nor a private address inside NAT64',
    ['a.test'],
    'a.test',
    '[64:ff9b::a00:5]',
    'special-address',
  ],
  ['nor metadata', ['a.test'], 'a.test', '169.254.169.254', 'metadata-address'],
  [
    'private: true opens a private address',
    [{ host: 'a.test', private: true }],
    'a.test',
    '10.0.0.5',
    undefined,
  ],
  [
    'private: true opens a unique local address',
    [{ host: 'a.test', private: true }],
    'a.test',
    '[fd00::1]',
    undefined,
  ],
  [
    'private: true opens no loopback',
    [{ host: 'a.test', private: true }],
    'a.test',
    '127.0.0.2',
    'special-address',
  ],
  [
    'private: true opens no link-local',
    [{ host: 'a.test', private: true }],
    'a.test',
    '169.254.1.1',
    'special-address',
  ],
  [
    'private: true opens no carrier-grade NAT',
    [{ host: 'a.test', private: true }],
    'a.test',
    '100.64.0.1',
    'special-address',
  ],
  [
    'private: true opens no metadata in a private range',
    [{ host: 'a.test', private: true }],
    'a.test',
    '[fd00:ec2::254]',
    'metadata-address',
  ],
  [
    'private: true of another rule opens nothing',
    [{ host: 'a.test', private: true }, 'a.test'],
    'a.test',
    '10.0.0.5',
    'special-address',
  ],
  [
    'a rule over the range opens its address',
    ['a.test:5432', '10.0.0.0/8:5432'],
    'a.test:5432',
    '10.0.0.5',
    undefined,
  ],
  ['but on its port alone', ['a.test', '10.0.0.0/8:5432'], 'a.test', '10.0.0.5', 'special-address'],
  [
    'a rule wider than a floor range opens nothing of it',
    ['a.test', '0.0.0.0/0', '8.0.0.0/6'],
    'a.test',
    '10.0.0.5',
    'special-address',
  ],
  [
    'an expired rule opens nothing',
    ['a.test', { host: '10.0.0.0/8', until: BEFORE }],
    'a.test',
    '10.0.0.5',
    'special-address',
  ],
  [
    'a rule that has yet to run out does',
    ['a.test', { host: '10.0.0.0/8', until: AFTER }],
    'a.test',
    '10.0.0.5',
    undefined,
  ],
  [
    'an exclusion by address holds for resolved addresses',
    ['a.test', '!1.2.3.0/24'],
    'a.test',
    '1.2.3.4',
    'address-excluded',
  ],
  [
    'and for the IPv4 address inside one',
    ['a.test', '!1.2.3.0/24'],
    'a.test',
    '[64:ff9b::102:304]',
    'address-excluded',
  ],
  [
    'and is lifted by a later rule',
    ['a.test', '!1.2.3.0/24', '1.2.3.4'],
    'a.test',
    '1.2.3.4',
    undefined,
  ],
  [
    'an exclusion of another port does not hold',
    ['a.test', '!1.2.3.0/24:22'],
    'a.test',
    '1.2.3.4',
    undefined,
  ],
  [
    'an exclusion beats private: true',
    [{ host: 'a.test', private: true }, '!10.0.0.0/8'],
    'a.test',
    '10.0.0.5',
    'address-excluded',
  ],
  [
    'metadata opens by its exact address and port',
    ['a.test:80', '169.254.169.254:80'],
    'a.test:80',
    '169.254.169.254',
    undefined,
  ],
  [
    'not by the address alone',
    ['a.test:80', '169.254.169.254'],
    'a.test:80',
    '169.254.169.254',
    'metadata-address',
  ],
  [
    'not by the range',
    ['a.test:80', '169.254.0.0/16:80'],
    'a.test:80',
    '169.254.169.254',
    'metadata-address',
  ],
  ['an own public address is closed', ['a.test'], 'a.test', OWN_PUBLIC, 'special-address'],
  [
    'a range does not open it',
    ['a.test', '93.184.216.0/24:443'],
    'a.test',
    OWN_PUBLIC,
    'special-address',
  ],
  [
    'its exact address and port do',
    ['a.test', '93.184.216.34:443'],
    'a.test',
    OWN_PUBLIC,
    undefined,
  ],
  [
    'private: true does not open an own address',
    [{ host: 'a.test', private: true }],
    'a.test',
    '127.0.0.1',
    'special-address',
  ],
  ['a listener is never open', ['a.test:3128', '198.51.100.200:3128'], 'a.test:3128', OWN, 'loop'],
  ['a listener is never open, even if given', ['a.test:3128'], 'a.test:3128', OWN, 'loop', true],
  ['a given address is exempt from the floor', ['a.test'], 'a.test', '10.0.0.5', undefined, true],
  ['a given address may be our own', ['a.test'], 'a.test', '127.0.0.1', undefined, true],
  [
    'a given address may not be metadata',
    ['a.test'],
    'a.test',
    '169.254.169.254',
    'metadata-address',
    true,
  ],
  [
    'a given address may not be excluded',
    ['a.test', '!10.0.0.0/8'],
    'a.test',
    '10.0.0.5',
    'address-excluded',
    true,
  ],
]

for (const [name, rules, target, address, reason, given = false] of TABLE) {
  void tap.test(name, async (t) => {
    const policy = policyOf(rules)
    const wanted = targetOf(target)
    const decision = decide(policy, wanted, NOW)
    t.equal(decision.verdict, 'allow')
    const request = { ip: ip(address), port: wanted.port, decision, given, nowMs: NOW }
    t.equal(vetAddress(policy, LOCAL, request), reason)
  })
}

void tap.test('the floor holds in every mode', async (t) => {
  for (const mode of ['denylist', 'open'] as const) {
    const policy = policyOf([], mode)
    const decision = decide(policy, targetOf('a.test'), NOW)
    t.match(decision, { verdict: 'allow', reason: 'mode-default' })
    const vet = (address: string) =>
      vetAddress(policy, LOCAL, { ip: ip(address), port: 443, decision, given: false, nowMs: NOW })
    t.equal(vet('169.254.169.254'), 'metadata-address')
    t.equal(vet('10.0.0.1'), 'special-address')
    t.equal(vet('1.2.3.4'), undefined)
  }
})
