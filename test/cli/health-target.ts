import tap from 'tap'
import { whereServed } from '../../src/cli/health-target.ts'

void tap.test('where a proxy listens, by the words that it was started with', async (t) => {
  const rows: [words: string, host: string, port: number, token: string | undefined][] = [
    ['serve', '127.0.0.1', 3128, undefined],
    ['serve --listen 0.0.0.0:3128', '127.0.0.1', 3128, undefined],
    ['serve --listen=:8080', '127.0.0.1', 8080, undefined],
    ['serve --listen [::]:8080', '127.0.0.1', 8080, undefined],
    ['serve --listen [fd00::7]:9 --token x', 'fd00::7', 9, 'x'],
    ['serve --listen 10.1.2.3:1 --listen 10.1.2.4:2', '10.1.2.4', 2, undefined],
    ['serve --token-file /t', '127.0.0.1', 3128, 'of /t'],
    ['serve --token=a --token-file /t', '127.0.0.1', 3128, 'a'],
  ]
  for (const [words, host, port, token] of rows) {
    const found = whereServed(words.split(' '), {}, (file) => `of ${file}\n`)
    t.strictSame(found, { host, port, token }, words)
  }
  t.throws(() => whereServed(['serve', '--listen', '[::]:0'], {}, () => ''), { message: /port 0/ })
  const env = { ITERION_EGRESS_TOKEN: 'e' }
  t.equal(whereServed(['serve'], env, () => '').token, 'e')
  t.throws(
    () =>
      whereServed(['serve', '--token-file', '/t'], {}, () => {
        throw new Error('no /t')
      }),
    { message: 'no /t' },
  )
})
