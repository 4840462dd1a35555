import path from 'node:path'
import tap from 'tap'
import { page } from '../support/clients/fetches.ts'
import { buildProjectImage } from '../support/docker.ts'
import { NO_CLIENTS } from '../support/unaware/client-image.ts'
import { INSIDE_PORT, RULES, startFarSide, WEB } from '../support/unaware/far-side.ts'
import { DOORS, openDoorDesk, openInside } from '../support/unaware/inside.ts'
import { holdServed } from '../support/unaware/record.ts'
import { unawareProgramsIn } from '../support/unaware/programs.ts'
import { readPage, sectionOf, tableOf } from '../support/page.ts'

// The addresses that stand for names are of loopback, or of another range; and the sandbox's own servers beside them.

const PAGE = sectionOf(readPage('docs/clients.md'), 'Programs that know of no proxy')
const RANGES = [
  { range: '127.64.0.0/10', first: /^127\.64\.0\./, isLoopback: true },
  { range: '198.18.0.0/15', first: /^198\.18\.0\./, isLoopback: false },
] as const
const IS_PRIVATE = `import ipaddress, socket
print(ipaddress.ip_address(socket.gethostbyname('${WEB}')).is_private)`

await tap.test('addresses that stand for names', { skip: NO_CLIENTS }, async (t) => {
  await buildProjectImage()
  const far = await startFarSide(t)
  const rows = tableOf(PAGE, '| program | with 127.64.0.0/10 | with 198.18.0.0/15 |')

  for (const door of DOORS) {
    for (const [at, { range, first, isLoopback }] of RANGES.entries()) {
      await t.test(`${door}, ${range}`, async (part) => {
        const desk = openDoorDesk(part, door)
        const programs = unawareProgramsIn(desk.workspace, far)
        const file = (name: string) => path.join(desk.workspace, name)
        const policy = `rules: [${RULES}]\ndoor: { syntheticRange: ${range} }\n`
        const inside = await openInside(part, door, desk, { policy, resolve: far.resolve })
        const saysOf = (what: string) => {
          const row = rows.find(([program = '']) => program.startsWith(what))
          return row?.[at + 1] ?? 'nothing'
        }
        const found = await inside.run({ words: ['getent', 'hosts', WEB] })
        part.match(found.stdout, first)

        await part.test('own servers have their ports, and closed ones are closed', async (sub) => {
          const env = { NODE_EXTRA_CA_CERTS: file('ca.pem') }
          const ran = await inside.run({ words: ['node', file('own-servers.js')], env })
          sub.equal(ran.code, 0, ran.output)
          const refused = ['ECONNREFUSED', 'ECONNREFUSED', 'ECONNREFUSED']
          const shown = page(WEB, '/file')
          const served = {
            own: ['own 80', 'own 443', 'own 5432'],
            outside: [shown, shown, 'S'],
          }
          const { '::': both, ...others } = JSON.parse(ran.stdout) as Record<string, unknown>
          sub.strictSame(others, {
            closed: refused,
            noRule: 'ECONNREFUSED',
            '0.0.0.0': served,
            '127.0.0.1': served,
            closedAgain: refused,
          })
          // Where the kernel has no IPv6 there is no such address.
          if (both !== 'EAFNOSUPPORT') sub.strictSame(both, served)
        })

        await part.test('ssh looks whether an address is its own', async (sub) => {
          const ssh = (option: string, known: string) => {
            const words = ['ssh', '-F', 'none', '-i', file('key'), '-o', 'BatchMode=yes']
            const hosts = ['-o', 'StrictHostKeyChecking=yes', '-o', `UserKnownHostsFile=${known}`]
            const rest = ['-o', option, 'root@git.allowed.test', 'echo', 'in']
            return inside.run({ words: [...words, ...hosts, ...rest] })
          }
          const trusting = await ssh('NoHostAuthenticationForLocalhost=yes', '/dev/null')
          sub.equal(trusting.stdout, isLoopback ? 'in\n' : '', trusting.output)
          sub.match(saysOf('ssh with `NoHost'), isLoopback ? /^takes any/ : /^checks the/)
          const plain = await ssh('NoHostAuthenticationForLocalhost=no', '/dev/null')
          sub.match(plain.output, /Host key verification failed/)
          const checking = await ssh('CheckHostIP=yes', file('known_hosts'))
          sub.equal(checking.stdout, 'in\n', checking.output)
          const known = await inside.run({ words: ['cat', file('known_hosts')] })
          sub.equal(/^198\.18\.0\.\d+ /m.test(known.stdout), !isLoopback)
          sub.match(saysOf('ssh with `Check'), isLoopback ? /^works/ : /^writes the address/)
        })

        await part.test('code that takes no private address takes neither', async (sub) => {
          const ran = await inside.run({ words: ['python3', '-c', IS_PRIVATE] })
          sub.equal(ran.stdout, 'True\n', ran.output)
          sub.match(saysOf('code that'), /^refuses every host/)
        })

        await part.test('Chromium tells own servers from others', async (sub) => {
          const browser = programs.find(({ name }) => name === 'Chromium')
          const { words = [] } = browser?.ask(WEB, 443, 'allowed') ?? {}
          const server = ['node', file('with-server.js'), String(INSIDE_PORT)]
          const { stdout, output } = await inside.run({ words: [...server, ...words] })
          const shown =
            /<p id="own">run<.*<p id="other">(.*)<\/p><p id="inside">(.*)<\/p><p id="online">(.*)<\/p>/.exec(
              stdout,
            )
          const expected = [
            '/other of api.allowed.test',
            isLoopback ? 'served inside' : 'refused',
            'false',
          ]
          sub.strictSame(shown?.slice(1), expected, 'what it shows', {
            output: output.slice(-2_000),
          })
          sub.match(
            saysOf('Chromium, a page of an allowed host'),
            isLoopback ? /^may$/ : /^may not/,
          )
          sub.equal(saysOf('Chromium, a page that asks another'), 'may')
          sub.match(saysOf('Chromium, `navigator'), /^`false`/)
        })

        if (isLoopback) return
        for (const program of programs) await holdServed(part, program, inside)
      })
    }
  }
})
