import tap from 'tap'
import type { Devcontainer } from '../../src/sandbox/devcontainer/read-devcontainer.ts'
import { repositoryEnvironment } from '../../src/sandbox/repository-env.ts'

type Variables = Readonly<Record<string, string>>

const result = (containerEnv: Variables, remoteEnv: Variables, imageEnv: Variables = {}) =>
  repositoryEnvironment({ containerEnv, remoteEnv } as Devcontainer, imageEnv, '/w')

void tap.test('what is denied is told by its name, with who wanted it', async (t) => {
  t.strictSame(
    result(
      { A: '1', LD_PRELOAD: '/x' },
      { openai_base_url: 'x', LD_PRELOAD: '/y' },
      { HTTP_PROXY: 'x', LANG: 'C' },
    ),
    {
      env: { A: '1' },
      unset: ['HTTP_PROXY'],
      denied: [
        { source: 'devcontainer', names: ['LD_PRELOAD', 'openai_base_url'] },
        { source: 'image', names: ['HTTP_PROXY'] },
      ],
    },
  )
  t.strictSame(result({}, {}), { env: {}, unset: [], denied: [] })
})

void tap.test(
  'remoteEnv knows what the container has, once, and nothing that was denied',
  async (t) => {
    const { env } = result(
      { A: 'a', NODE_OPTIONS: '--x', OWN: '${containerEnv:A}' },
      {
        B: '${containerEnv:A}/${containerEnv:I}/${containerEnv:NONE:d:e}',
        C: '${containerEnv:NODE_OPTIONS}${containerEnv:AWS_PROFILE}',
        D: '${containerEnv:T}',
      },
      { I: 'i', AWS_PROFILE: 'p', T: '${containerEnv:A}' },
    )
    t.strictSame(env, {
      A: 'a',
      OWN: '${containerEnv:A}',
      B: 'a/i/d:e',
      C: '',
      D: '${containerEnv:A}',
    })
  },
)

void tap.test('the search path of an image is its own, and none of the workspace', async (t) => {
  const unset = (PATH: string) => result({}, {}, { PATH }).unset
  t.strictSame(unset('/usr/local/go/bin:/usr/bin'), [])
  for (const one of [
    '/usr/bin:',
    ':/bin',
    '.:/bin',
    'bin',
    '/w:/bin',
    '/w/bin',
    '/x/../w/bin',
    '',
  ]) {
    t.strictSame(unset(one), ['PATH'], one)
  }
  t.strictSame(
    result({}, {}, { Path: '/bin' }).unset,
    ['Path'],
    'another spelling is another variable',
  )
})

void tap.test('a blank around the name of an image variable hides nothing', async (t) => {
  const written = { ' NODE_OPTIONS': '--x', '\tGIT_SSH_COMMAND': 'y', 'LANG ': 'C' }
  const { unset } = repositoryEnvironment(
    { containerEnv: {}, remoteEnv: {} } as unknown as Devcontainer,
    written,
    '/w',
  )
  t.strictSame(unset, ['NODE_OPTIONS', 'GIT_SSH_COMMAND'])
})
