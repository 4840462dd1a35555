import tap from 'tap'
import { answerProblem, connectProblem, deviceProblem, routeProblem } from '../../src/door/probe.ts'

const DEVICES = `Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
`
const COUNTS = ' 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0'
const ROUTES =
  'Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n'
const ZEROS = '0'.repeat(32)

void tap.test('a namespace may have lo and nothing else', async (t) => {
  const rows: [names: string[], problem: RegExp | undefined][] = [
    [['    lo:'], undefined],
    [['lo:'], undefined],
    [['    lo:', '  eth0:'], /besides lo: eth0/],
    [['  eth0:', '    lo:'], /besides lo: eth0/],
    [['    lo:', 'lo:1:'], /besides lo: lo:1/],
    [['    lo:', 'lo0:'], /besides lo: lo0/],
    [['    lo:', 'LO:'], /besides lo: LO/],
    [['    lo:', ' tunl0:', ' sit0:'], /fb_tunnels_only_for_init_net/],
    [['    lo:', ' tunl0:', ' eth0:'], /eth0$/],
    [['    lo:', 'what is this'], /cannot be read/],
    [['    lo:', '    lo:'], /cannot be told/],
    [[], /no lo/],
  ]
  for (const [names, problem] of rows) {
    const text = DEVICES + names.map((name) => `${name}${COUNTS}\n`).join('')
    if (problem === undefined) t.equal(deviceProblem(text), undefined, names.join())
    else t.match(deviceProblem(text), problem, names.join())
  }
  t.match(deviceProblem(''), /no lo/, 'an empty file is no proof')
})

void tap.test('no route leads out', async (t) => {
  const v4 = (name: string) => `${name}\t00000000\t0100A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n`
  const v6 = (name: string) =>
    `${ZEROS} 00 ${ZEROS} 00 ${ZEROS} ffffffff 00000001 0 00200200 ${name}\n`
  const rows: [v4: string, v6: string, problem: string | undefined][] = [
    [ROUTES, '', undefined],
    [ROUTES, v6('      lo'), undefined],
    [ROUTES + v4('lo'), v6('lo'), undefined],
    [ROUTES + v4('eth0'), '', 'it has a route by eth0'],
    [ROUTES + v4('lo') + v4('tun0'), '', 'it has a route by tun0'],
    [ROUTES, v6('lo') + v6('wg0'), 'it has a route by wg0'],
    ['', '', 'its routes cannot be read'],
  ]
  for (const [four, six, problem] of rows) t.equal(routeProblem(four, six), problem)
})

void tap.test('only the proxy answers like the proxy', async (t) => {
  const good = 'HTTP/1.1 204 No Content\r\nProxy-Status: iterion-egress\r\nDate: x\r\n\r\n'
  t.equal(answerProblem(good), undefined)
  t.equal(answerProblem(good.replace('Proxy', 'Via: 1.1 x\r\nProxy')), undefined)
  t.equal(answerProblem(''), 'nothing answers at the door')
  const others = [
    'HTTP/1.1 204 No Content\r\n\r\n',
    good.replace('204', '200'),
    good.replace('iterion-egress', 'iterion-egress-of-others'),
    'HTTP/1.1 204 No Content\r\n\r\nProxy-Status: iterion-egress\r\n',
    'SSH-2.0-x\r\n',
  ]
  for (const other of others) t.match(answerProblem(other), /something else answers/, other)
})

void tap.test('a connect that leads nowhere fails at once', async (t) => {
  for (const code of ['ENETUNREACH', 'EHOSTUNREACH', 'EADDRNOTAVAIL', 'EAFNOSUPPORT'])
    t.equal(connectProblem('192.0.2.1', code), undefined)
  for (const outcome of ['it is connected', 'no answer', 'ECONNREFUSED', 'ETIMEDOUT', 'ECONNRESET'])
    t.match(connectProblem('192.0.2.1', outcome), /192\.0\.2\.1 was not refused/)
})
