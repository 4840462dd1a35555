import { spawnSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import tap from 'tap'
import { carriedBeside, unpackingLines } from '../../src/door/carried-variables.ts'

const OWN = { PATH: '/usr/bin:/bin', LC_ALL: 'C' }

/** What shells say of themselves. */
const OWN_WORDS = new Set(['PWD', 'OLDPWD', 'SHLVL', '_'])

/** The environment of a command behind a shell that unpacks it. */
function unpacked(shell: string, env: Readonly<Record<string, string>>): Record<string, string> {
  const script = `${unpackingLines(Object.keys(OWN), env)}\nexec /usr/bin/env -0`
  // Only these: what is said to a test about its processes is not for them.
  const pairsOf = Object.entries(carriedBeside(OWN, env)).map(([name, value]) => `${name}=${value}`)
  const { stdout, stderr } = spawnSync('/usr/bin/env', ['-i', ...pairsOf, shell, '-c', script], {
    stdio: ['ignore', 'pipe', 'pipe'],
    encoding: 'utf8',
  })
  if (stderr !== '') throw new Error(stderr)
  const pairs = stdout.split('\0').slice(0, -1)
  return Object.fromEntries(pairs.map((pair) => pair.split(/=(.*)/s).slice(0, 2)))
}

void tap.test('what starts a command has none of its variables by their names', async (t) => {
  const env = { LD_PRELOAD: '/x.so', PATH: '/evil', ENV: '/x', 'a.b': '1', _carried_x: 'y' }
  t.strictSame(carriedBeside(OWN, env), {
    ...OWN,
    _carried_LD_PRELOAD: '/x.so',
    _carried_PATH: '/evil',
    _carried_ENV: '/x',
  })
})

void tap.test('the command has all of them again, and no other', async (t) => {
  const env = {
    PATH: '/a:/b',
    EMPTY: '',
    QUOTED: `'"$(echo x)\`echo y\`\\ \n two  blanks`,
    IFS: 'a',
    PS1: '> ',
    PS4: '+',
    HOME: '/h',
    LC_TIME: 'C',
    LD_LIBRARY_PATH: '/nowhere',
    name: 'n',
    A1: '1',
  }
  for (const shell of ['/bin/sh', '/bin/dash', '/bin/bash'].filter((one) => existsSync(one))) {
    const found = Object.entries(unpacked(shell, env)).filter(([name]) => !OWN_WORDS.has(name))
    t.strictSame(Object.fromEntries(found), env, shell)
  }
})

void tap.test('what a shell lets nobody set stops nothing', async (t) => {
  const own = ['OPTIND', 'PPID', 'UID', 'EUID', 'SHELLOPTS', 'BASHOPTS', 'BASH_VERSINFO']
  const env = { ...Object.fromEntries(own.map((name) => [name, 'x'])), 'a b': 'c', KEPT: 'k' }
  for (const shell of ['/bin/sh', '/bin/bash'].filter((one) => existsSync(one))) {
    t.match(unpacked(shell, env), { KEPT: 'k' }, shell)
  }
})
