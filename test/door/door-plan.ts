import tap from 'tap'
import { planDoor } from '../../src/door/door-plan.ts'
import type { Mode } from '../../src/policy/policy.ts'
import { formatPorts } from '../../src/policy/ports.ts'
import { policyOf, type Written } from '../support/policy-of.ts'

function planned(rules: readonly Written[], mode: Mode = 'allowlist') {
  const { ports, routes, onlyByProxy } = planDoor(policyOf(rules, mode))
  return {
    ports: ports.join(),
    routes: routes.map(({ cidr, ports: led }) => `${cidr} ${led.join()}`),
    left: formatPorts(onlyByProxy.ports),
    leftAddresses: onlyByProxy.addresses,
  }
}

void tap.test('the ports that rules name', async (t) => {
  const rows: [rules: readonly Written[], ports: string, left: string][] = [
    [[], '', ''],
    [['a.test'], '80,443', ''],
    [['a.test', 'git.test:22', 'db.test:5432'], '22,80,443,5432', ''],
    [['a.test:22', '!b.test:25'], '22', ''],
    [['a.test:8000-8003'], '8000,8001,8002,8003', ''],
    [['a.test:*'], '80,443', '*'],
    [['a.test:*', 'git.test:22'], '22,80,443', '*'],
    [['a.test:1000-2000', 'b.test:1500'], '1500', '1000-2000'],
    [['a.test:9000-9063'], Array.from({ length: 64 }, (_, i) => 9000 + i).join(), ''],
    [['a.test:9000-9064'], '', '9000-9064'],
    [
      ['a.test:3000-3063', 'b.test:3001-3064', 'c.test:3002-3065'],
      Array.from({ length: 66 }, (_, i) => 3000 + i).join(),
      '',
    ],
  ]
  for (const [rules, ports, left] of rows) {
    const plan = planned(rules)
    t.strictSame({ ports: plan.ports, left: plan.left }, { ports, left })
  }
})

void tap.test(
  'where no rule is needed every port is allowed, and the usual ones are served',
  async (t) => {
    t.match(planned(['!a.test'], 'denylist'), { ports: '80,443', left: '*' })
    t.match(planned(['10.0.0.0/8:5432'], 'open'), { ports: '80,443,5432', left: '*' })
  },
)

void tap.test('so many ports and no more', async (t) => {
  const rules = ['a.test:1000-1059', 'b.test:2000-2059', 'c.test:3000-3059', 'd.test:22']
  const plan = planDoor(policyOf(rules))
  t.equal(plan.ports.length, 121)
  t.strictSame(plan.onlyByProxy.ports, [{ low: 3000, high: 3059 }])
})

void tap.test(
  'the addresses that rules allow are led to the door, but for the sandbox itself',
  async (t) => {
    t.strictSame(
      planned([
        '203.0.113.0/24:443',
        '203.0.113.0/24:80',
        '198.51.100.7',
        '[2001:db8::1]:5432',
        '!203.0.113.9',
        '127.0.0.1:8080',
        '[::1]:8080',
        '127.64.3.0/24:443',
        '0.0.0.0/0:443',
        '::/0:443',
        '224.0.0.0/4:443',
        '192.0.2.1:*',
      ]),
      {
        ports: '80,443,5432,8080',
        routes: [
          '203.0.113.0/24 80,443',
          '198.51.100.7 80,443',
          '2001:db8::1 5432',
          '192.0.2.1 80,443,5432,8080',
        ],
        left: '*',
        leftAddresses: [
          '127.0.0.1:8080',
          '[::1]:8080',
          '127.64.3.0/24:443',
          '0.0.0.0/0:443',
          '::/0:443',
          '224.0.0.0/4:443',
        ],
      },
    )
  },
)

void tap.test('so many ranges and no more', async (t) => {
  const rules = Array.from({ length: 200 }, (_, i) => `203.0.${i}.0/24:443`)
  const { routes, onlyByProxy } = planDoor(policyOf(rules))
  t.equal(routes.length, 128)
  t.equal(onlyByProxy.addresses.length, 72)
})

void tap.test('where the resolver is', async (t) => {
  const { stub, range, isLoopback } = planDoor(policyOf(['a.test']))
  t.strictSame(
    { stub, range, isLoopback },
    {
      stub: '127.64.0.1',
      range: '127.64.0.0/10',
      isLoopback: true,
    },
  )
})
