import { execFileSync } from 'node:child_process'
import tap from 'tap'
import { fitsVariable, proxyVariables, splitEnvironment } from '../../src/sandbox/env-file.ts'

void tap.test('one line a variable, as it is', async (t) => {
  const { envFile, shellFile } = splitEnvironment({ A: '1', B: ' two # "$x" ', C: '', D: 'a=b' })
  t.equal(envFile, 'A=1\nB= two # "$x" \nC=\nD=a=b\n')
  t.equal(shellFile, '')
})

void tap.test('what no line can hold goes through the shell, unchanged', async (t) => {
  const values = {
    KEY: `-----BEGIN\n'x' "$(id)" \`id\` \\\n-----END`,
    CR: 'a\rb',
    LONG: 'x'.repeat(20_000),
  }
  const { envFile, shellFile } = splitEnvironment({ ...values, A: '1' })
  t.equal(envFile, 'A=1\n')
  for (const [name, value] of Object.entries(values)) {
    const seen = execFileSync('sh', ['-c', `${shellFile}printf %s "$${name}"`], { env: {} })
    t.equal(seen.toString(), value, name)
  }
})

void tap.test('both spellings lead to the proxy, and only loopback goes past it', async (t) => {
  const variables = proxyVariables('http://127.0.0.1:3128')
  for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY', 'NO_PROXY']) {
    t.equal(variables[name], variables[name.toLowerCase()], name)
  }
  t.equal(variables['HTTPS_PROXY'], 'http://127.0.0.1:3128')
  t.equal(variables['NO_PROXY'], 'localhost,127.0.0.1,::1')
})

void tap.test('what fits is what the kernel starts a program with', async (t) => {
  for (const length of [131_066, 131_069, 131_070, 200_000]) {
    const value = 'x'.repeat(length)
    const start = () => execFileSync('/bin/true', [], { env: { A: value } })
    if (fitsVariable('A', value)) t.doesNotThrow(start, `${length}`)
    else t.throws(start, { code: 'E2BIG' }, `${length}`)
  }
  t.notOk(fitsVariable('A', 'ä'.repeat(65_535)), 'bytes count')
})
