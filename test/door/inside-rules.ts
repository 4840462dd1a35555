import tap from 'tap'
import type { DoorPlan } from '../../src/door/door-plan.ts'
import { ipLines, leadHere, natLines, redirect } from '../../src/door/inside-rules.ts'

const PLAN: DoorPlan = {
  stub: '127.64.0.1',
  range: '127.64.0.0/10',
  isLoopback: true,
  ports: [22, 443],
  routes: [
    { family: 4, cidr: '203.0.113.0/24', ports: [443] },
    { family: 6, cidr: '2001:db8::/32', ports: [22, 443] },
  ],
}
const REDIRECTS = [
  { from: 22, to: 40_022 },
  { from: 443, to: 40_443 },
]

void tap.test('what ip is told', async (t) => {
  t.strictSame(ipLines(PLAN), [
    'address add 127.64.0.1/32 dev lo',
    'route add local 203.0.113.0/24 dev lo',
    'route add local 2001:db8::/32 dev lo',
  ])
  const elsewhere = { ...PLAN, stub: '198.18.0.1', range: '198.18.0.0/15', isLoopback: false }
  t.strictSame(ipLines(elsewhere).slice(0, 2), [
    'address add 198.18.0.1/32 dev lo',
    'route add local 198.18.0.0/15 dev lo',
  ])
})

void tap.test('what iptables is told', async (t) => {
  t.equal(
    natLines(4, PLAN, REDIRECTS),
    [
      '*nat',
      '-A OUTPUT -d 127.64.0.1/32 -j ACCEPT',
      '-A OUTPUT -d 127.64.0.0/10 -p tcp --dport 22 -j DNAT --to-destination :40022',
      '-A OUTPUT -d 127.64.0.0/10 -p tcp --dport 443 -j DNAT --to-destination :40443',
      '-A OUTPUT -d 203.0.113.0/24 -p tcp --dport 443 -j DNAT --to-destination :40443',
      'COMMIT',
      '',
    ].join('\n'),
  )
  t.equal(
    natLines(6, PLAN, REDIRECTS),
    [
      '*nat',
      '-A OUTPUT -d 2001:db8::/32 -p tcp --dport 22 -j DNAT --to-destination :40022',
      '-A OUTPUT -d 2001:db8::/32 -p tcp --dport 443 -j DNAT --to-destination :40443',
      'COMMIT',
      '',
    ].join('\n'),
  )
  t.equal(natLines(6, { ...PLAN, routes: [] }, REDIRECTS), undefined)
  t.equal(natLines(4, PLAN, []), undefined)
})

void tap.test('a program that is not there is named', async (t) => {
  const nowhere = { PATH: '/nonexistent' }
  t.match(await leadHere(PLAN, nowhere), /^ip cannot be started/)
  t.match(await redirect(4, PLAN, REDIRECTS, nowhere), /^iptables-restore cannot be started/)
  t.match(await redirect(6, PLAN, REDIRECTS, nowhere), /^ip6tables-restore cannot be started/)
  const ofNames = { ...PLAN, routes: [] }
  t.equal(await redirect(6, ofNames, REDIRECTS, nowhere), undefined, 'nothing is to be said')
})
