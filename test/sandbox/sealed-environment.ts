import tap from 'tap'
import { proxyVariables } from '../../src/sandbox/env-file.ts'
import { sealedEnvironment } from '../../src/sandbox/sealed-environment.ts'
import { codes, readPage, sectionOf } from '../support/page.ts'

const URL = 'http://127.0.0.1:3128'

void tap.test('the caller’s variables stay, and nobody overrides the proxy’s', async (t) => {
  const env = { A: '1', HTTP_PROXY: 'http://elsewhere', no_proxy: '*', B: undefined }
  t.strictSame(sealedEnvironment(env, URL), { A: '1', ...proxyVariables(URL) })
})

void tap.test('every variable of the page is taken out', async (t) => {
  const section = sectionOf(readPage('docs/wrap.md'), 'What is covered')
  const names = codes(section).filter((word) => /^[A-Z][A-Z_]+$/.test(word))
  t.ok(names.length > 15, names.join())
  for (const name of names) {
    t.strictSame(sealedEnvironment({ [name]: 'x' }, URL), proxyVariables(URL), name)
  }
})
