import tap from 'tap'
import {
  ALL_PORTS,
  formatPorts,
  normalizePorts,
  notAPort,
  parsePortRange,
  portsContain,
  portsCover,
  portsOverlap,
} from '../../src/policy/ports.ts'

const ranges = (text: string) =>
  normalizePorts(text.split(',').flatMap((one) => parsePortRange(one) ?? []))

void tap.test('a port, a range and a star are read', async (t) => {
  t.strictSame(parsePortRange('443'), { low: 443, high: 443 })
  t.strictSame(parsePortRange('8000-8010'), { low: 8000, high: 8010 })
  t.strictSame(parsePortRange('1-65535'), ALL_PORTS[0])
  t.strictSame(parsePortRange('*'), ALL_PORTS[0])
})

void tap.test('what is no port is undefined', async (t) => {
  const wrong = [
    '',
    '0',
    '65536',
    '99999',
    '100000',
    '80-',
    '-80',
    '90-80',
    '0-5',
    '80-65536',
    ' 80',
  ]
  for (const text of [...wrong, '+80', '8e1', '0x50', '80.0', '80,443', '**', '٨٠', '80\n']) {
    t.equal(parsePortRange(text), undefined, JSON.stringify(text))
  }
  t.match(notAPort('x\n'), '"x\\n" is no port')
})

void tap.test('ranges are sorted and joined where they touch', async (t) => {
  t.equal(formatPorts(ranges('443,80')), '80,443')
  t.equal(formatPorts(ranges('80,81,82')), '80-82')
  t.equal(formatPorts(ranges('1-100,50-60,200')), '1-100,200')
  t.equal(formatPorts(ranges('*,80')), '*')
  t.equal(formatPorts(ranges('1-30000,30001-65535')), '*')
})

void tap.test('contain, cover and overlap agree with trying every port', async (t) => {
  const sets = ['80', '80,443', '1-100', '90-110', '100', '101-65535', '*', '80-81,443'].map(ranges)
  const ports = [1, 79, 80, 81, 82, 89, 90, 99, 100, 101, 110, 111, 442, 443, 444, 65535]
  for (const a of sets) {
    for (const b of sets) {
      const name = `${formatPorts(a)} and ${formatPorts(b)}`
      const inBoth = ports.some((port) => portsContain(a, port) && portsContain(b, port))
      t.equal(portsOverlap(a, b), inBoth, `overlap of ${name}`)
      const allIn = ports.every((port) => !portsContain(b, port) || portsContain(a, port))
      t.equal(portsCover(a, b), allIn, `cover of ${name}`)
    }
  }
})
