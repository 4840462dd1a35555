import tap from 'tap'
import { innerWords, outerWords, setUpWords } from '../../src/door/seal-words.ts'

const CALLER = { caller: { uid: 1000, gid: 100 }, account: undefined }
const ROOT = { caller: { uid: 0, gid: 0 }, account: undefined }
const NOBODY = { ...ROOT, account: { uid: 65534, gid: 65534, name: 'nobody' } }

void tap.test('only who is not root needs a user namespace outside', async (t) => {
  t.strictSame(
    outerWords(CALLER, ['node', 'helper']).join(' '),
    'unshare --user --map-root-user --net --mount -- setpriv --pdeathsig KILL -- node helper',
  )
  t.strictSame(
    outerWords(ROOT, ['node']).join(' '),
    'unshare --net --mount -- setpriv --pdeathsig KILL -- node',
  )
})

void tap.test('the command is always in a user namespace of its own', async (t) => {
  const command = ['sh', '-c', '$(x)', '--', 'a b']
  const sealed = { words: command, env: {}, directory: '/a folder', isAtTerminal: false }
  for (const [user, mapped] of [
    [CALLER, '--map-user=1000 --map-group=100'],
    [ROOT, '--map-user=0 --map-group=0'],
    [NOBODY, '--map-user=65534 --map-group=65534'],
  ] as const) {
    const words = innerWords(user, sealed)
    t.match(words.join(' '), `unshare --user ${mapped} -- setpriv --no-new-privs`)
    t.strictSame(words.slice(-5), command, 'word by word')
    t.ok(words.includes('--wd=/a folder'))
    t.ok(words.includes('--ipc'))
    t.ok(words.includes('setsid'), 'nobody outside is in its group')
    t.notOk(innerWords(user, { ...sealed, isAtTerminal: true }).includes('setsid'))
  }
  t.match(innerWords(ROOT, sealed).join(' '), '--bounding-set=-all')
  const dropping = innerWords(NOBODY, sealed).join(' ')
  t.match(dropping, 'setpriv --reuid=65534 --regid=65534 --init-groups -- unshare --user')
  const number = { ...ROOT, account: { uid: 7, gid: 8, name: undefined } }
  t.match(innerWords(number, sealed).join(' '), '--clear-groups')
})

void tap.test('places are arguments, never text of a script', async (t) => {
  const [shell, , , , ...places] = setUpWords(
    {
      run: '/run',
      resolv: '/etc/resolv.conf',
      nsswitch: undefined,
      hosts: '/etc/hosts',
      folders: ['/a b'],
      sockets: ['/c"d$(e)'],
      blind: ['/f g'],
      unsearched: [],
    },
    '127.64.0.1',
  )
  t.equal(shell, 'sh')
  t.strictSame(places, [
    '/run',
    '/etc/resolv.conf',
    '',
    '/etc/hosts',
    '127.64.0.1',
    'folder:/a b',
    'socket:/c\\0042d\\0044\\0050e\\0051',
    'blind:/f\\0040g',
  ])
})
