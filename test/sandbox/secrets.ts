import tap from 'tap'
import type { SandboxHost } from '../../src/sandbox/host.ts'
import { readSecrets } from '../../src/sandbox/secrets.ts'
import type { SecretSpec, Workflow } from '../../src/sandbox/spec.ts'

function read(secrets: readonly SecretSpec[], file: string, env: Record<string, string> = {}) {
  const host = { env, cwd: '/' } as unknown as SandboxHost
  return readSecrets({ secrets, file } as unknown as Workflow, host)
}

void tap.test(
  'a secret comes from a variable or a file, and is a variable or a file',
  async (t) => {
    const folder = t.testdir({ token: 'from a file\n' })
    const { env, files } = read(
      [
        { name: 'A', as: 'env', from: { env: 'HOST_A' } },
        { name: 'B', as: 'env', from: { file: 'token' } },
        { name: 'C', as: 'file', from: { env: 'HOST_A' } },
        { name: 'D', as: 'file', from: { file: `${folder}/token` } },
      ],
      `${folder}/workflow.yaml`,
      { HOST_A: 'a\nb' },
    )
    t.strictSame(env, {
      A: 'a\nb',
      B: 'from a file\n',
      C_FILE: '/run/secrets/C',
      D_FILE: '/run/secrets/D',
    })
    t.strictSame(
      files.map(({ name, content }) => [name, content.toString()]),
      [
        ['C', 'a\nb'],
        ['D', 'from a file\n'],
      ],
    )
  },
)

void tap.test('a secret that is nowhere starts nothing, and no message holds one', async (t) => {
  const file = `${t.testdir({ binary: 'x\0y' })}/workflow.yaml`
  t.throws(() => read([{ name: 'A', as: 'env', from: { env: 'NO' } }], file), {
    code: 'OPTION_INVALID',
    message: 'the secret A comes from the variable NO, which is not set',
  })
  t.throws(() => read([{ name: 'A', as: 'env', from: { file: 'no' } }], file), {
    code: 'FILE_UNREADABLE',
  })
  t.throws(() => read([{ name: 'A', as: 'env', from: { file: 'binary' } }], file), {
    code: 'OPTION_INVALID',
    message: 'the secret A holds a NUL byte and cannot be a variable; take it as: file',
  })
})
