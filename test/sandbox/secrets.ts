import { execFileSync } from 'node:child_process'
import { symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import type { SandboxHost } from '../../src/sandbox/host.ts'
import { readSecrets } from '../../src/sandbox/secrets.ts'
import type { SecretSpec, Workflow } from '../../src/sandbox/spec.ts'

function read(secrets: readonly SecretSpec[], file: string, env: Record<string, string> = {}) {
  const host = { env, cwd: '/' } as unknown as SandboxHost
  return readSecrets({ secrets, file } as unknown as Workflow, host, path.dirname(file))
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
  const file = `${t.testdir({ binary: 'x\0y', large: 'x'.repeat(200_000) })}/workflow.yaml`
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
  t.throws(() => read([{ name: 'A', as: 'env', from: { file: 'large' } }], file), {
    code: 'OPTION_INVALID',
    message: /^the secret A has 200000 bytes, and a variable less than 128 KiB/,
  })
  t.equal(read([{ name: 'A', as: 'file', from: { file: 'large' } }], file).files.length, 1)
})

void tap.test('what a sandbox may have put in its place is not read', async (t) => {
  const folder = t.testdir({ outside: 'of the host', w: { real: 'mine', binary: '' } })
  writeFileSync(`${folder}/w/binary`, Buffer.from([0x61, 0xff]))
  symlinkSync('../outside', `${folder}/w/link`)
  symlinkSync('real', `${folder}/w/inner`)
  execFileSync('mkfifo', [`${folder}/w/pipe`])
  const one = (file: string, as: 'env' | 'file' = 'file') =>
    read([{ name: 'A', as, from: { file } }], `${folder}/w/workflow.yaml`)
  t.equal(one('inner').files[0]?.content.toString(), 'mine')
  t.equal(one('../outside').files[0]?.content.toString(), 'of the host', 'the workflow says so')
  symlinkSync('w', `${folder}/by-link`)
  const byLink = [{ name: 'A', as: 'file', from: { file: 'real' } }] as const
  t.equal(read(byLink, `${folder}/by-link/workflow.yaml`).files[0]?.content.toString(), 'mine')
  t.throws(() => one('link'), { code: 'FILE_UNREADABLE', message: /leads out of the workspace/ })
  t.throws(() => one('pipe'), { code: 'FILE_UNREADABLE', message: /no regular file/ })
  t.throws(() => one('.'), { code: 'FILE_UNREADABLE' })
  t.throws(() => one('binary', 'env'), { code: 'OPTION_INVALID', message: /not UTF-8/ })
})
