import { writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { buildProjectImage, NO_ENGINE, PROJECT_IMAGE, TEST_IMAGE } from '../support/docker.ts'
import { startWorld } from '../support/escape/far-side.ts'
import { openDesk } from '../support/sandbox-run.ts'
import { ordinaryUser } from '../support/users.ts'

/** What is gone through, every address of it. The default range of a policy has four million: half an hour. */
const RANGE = process.env['SYNTHETIC_RANGE'] ?? '127.64.0.0/17'
const SKIP = NO_ENGINE || (process.getuid?.() === 0 ? false : 'only root makes the user of a test')

tap.setTimeout(SKIP || RANGE.endsWith('/17') ? 240_000 : 7_200_000)

/** Speaks to every address of a range on the port of the policy, and says which answered. */
const KNOCKER = String.raw`
const net = require('node:net')
const dns = require('node:dns').promises
const [base, bits] = process.argv[2].split('/')
const first = base.split('.').reduce((sum, part) => sum * 256 + Number(part), 0)
const size = 2 ** (32 - Number(bits))
const dotted = (word) => [24, 16, 8, 0].map((shift) => (word >>> shift) & 255).join('.')
const counts = {}
const answers = []
const knock = (host, port) => new Promise((resolve) => {
  let text = ''
  const socket = net.connect({ host, port })
  socket.on('connect', () => socket.write('GET /allowed HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n'))
  socket.on('data', (data) => (text += data))
  socket.on('error', (error) => (text += error.code))
  socket.setTimeout(10_000, () => socket.destroy(new Error('nothing')))
  socket.on('close', () => {
    if (/^[A-Z]+$/.test(text)) counts[text] = (counts[text] ?? 0) + 1
    else answers.push(host + ' ' + text.split('\r\n\r\n').at(-1).trim())
    resolve()
  })
})
const work = async (port) => {
  while (next < size) await knock(dotted(first + next++), port)
}
let next = 0
dns.lookup('allowed.test', { family: 4 }).then(async ({ address }) => {
  await Promise.all([...Array(32)].map(() => work(80)))
  console.log(JSON.stringify({ address, size, counts, answers }))
})
`

/** What {@link KNOCKER} prints. */
interface Told {
  readonly address: string
  readonly size: number
  readonly counts: Readonly<Record<string, number>>
  readonly answers: readonly string[]
}

void tap.test(
  'every synthetic address: those of names lead to them, all others nowhere',
  { skip: SKIP },
  async (t) => {
    await buildProjectImage()
    const world = await startWorld(t)
    for (const door of ['netns', 'sidecar'] as const) {
      await t.test(door, async (part) => {
        const desk = openDesk(part, door === 'sidecar' ? ordinaryUser() : undefined)
        const before = (await world.contacts()).length
        writeFileSync(path.join(desk.workspace, 'knock.js'), KNOCKER)
        writeFileSync(
          path.join(desk.workspace, 'workflow.yaml'),
          `name: every
sandbox:
  image: ${TEST_IMAGE}
  network: { rules: ["allowed.test:80"], door: { syntheticRange: ${RANGE} } }
nodes: [{ id: only, command: [node, knock.js, ${RANGE}] }]
`,
        )
        const words = ['--door', door, '--sidecar-image', PROJECT_IMAGE]
        const running = desk.start([
          'run',
          ...words,
          '--resolve',
          `allowed.test:${world.address}`,
          'workflow.yaml',
        ])
        const { code, stdout, stderr } = await running.done
        part.equal(code, 0, stderr)
        const { address, size, counts, answers } = JSON.parse(stdout) as Told
        part.equal(size, 2 ** (32 - Number(RANGE.split('/')[1])))
        part.strictSame(answers, [`${address} welcome`], 'one answers')
        // The resolver has its own address, and there nobody listens on this port.
        const others = { ECONNREFUSED: 1, ECONNRESET: size - 2 }
        part.strictSame(counts, others, 'all others are reset')
        const heard = (await world.contacts()).slice(before)
        part.strictSame(heard, ['http allowed.test GET /allowed'], 'one connection came outside')
      })
    }
  },
)
