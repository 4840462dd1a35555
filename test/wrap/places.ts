import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import path from 'node:path'
import tap from 'tap'
import type { SealPlaces } from '../../src/door/seal-places.ts'
import { SEAL_ENV, setUpWords } from '../../src/door/seal-words.ts'
import { NO_WRAP, openWrapDesk } from '../support/wrap.ts'

// Programs outside make and remove their sockets at any time: also between the search and the cover.

const NONE = { resolv: undefined, nsswitch: undefined, hosts: undefined, unsearched: [] } as const

/** Covers places in namespaces of its own, and asks something there. */
function cover(places: Partial<SealPlaces>, question: string) {
  const all = { run: '/run', ...NONE, folders: [], sockets: [], blind: [], ...places }
  const script = 'question=$1; shift; "$@" && eval "$question"'
  const words = ['--net', '--mount', '--', 'sh', '-c', script, 'sh', question]
  return spawnSync('unshare', [...words, ...setUpWords(all, '127.64.0.1')], {
    encoding: 'utf8',
    env: SEAL_ENV,
    input: 'the door is open\n',
  })
}

void tap.test('what is gone needs no cover', { skip: NO_WRAP }, async (t) => {
  const { folder } = openWrapDesk(t)
  const at = (name: string) => path.join(folder, name)
  const socket = at('a socket')
  const server = createServer().listen(socket)
  t.teardown(() => server.close())
  await new Promise((resolve) => server.once('listening', resolve))
  mkdirSync(at('a folder/below'), { recursive: true })
  const { status, stdout, stderr } = cover(
    {
      sockets: [at('gone'), socket, at('gone too/s')],
      blind: [at('gone too'), at('a folder')],
    },
    `ls -l '${socket}'; ls '${at('a folder')}'`,
  )
  t.match(stdout, /^lo\ncovered\n-.*a socket\n$/, 'the others are covered')
  t.strictSame([status, stderr], [0, ''])
})

void tap.test('what is there is covered, or nothing starts', { skip: NO_WRAP }, async (t) => {
  const { folder } = openWrapDesk(t)
  const file = path.join(folder, 'file')
  writeFileSync(file, '')
  for (const [places, why] of [
    [{ sockets: [folder] }, 'an empty file does not cover a folder'],
    [{ blind: [file] }, 'an empty folder does not cover a file'],
    [{ folders: [`${folder}/gone`] }, 'services may make it again'],
  ] as const) {
    const { status, stdout, stderr } = cover(places, 'echo started')
    t.not(status, 0, why)
    t.equal(stdout, 'lo\n', why)
    t.match(stderr, /^mount: .*(?:not a directory|does not exist)/i)
  }
})
