import { chmodSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { type BuildInput, buildTag } from '../../src/sandbox/build-tag.ts'

void tap.test(
  'the name of an image changes with all that goes into it, and with nothing else',
  async (t) => {
    const root = t.testdir({ context: { a: 'a', b: { c: 'c' } }, Dockerfile: 'FROM x' })
    const input: BuildInput = {
      dockerfile: path.join(root, 'Dockerfile'),
      context: path.join(root, 'context'),
      args: { A: '1', B: '2' },
      target: undefined,
    }
    const { signal } = new AbortController()
    const tag = (change: Partial<BuildInput> = {}, network: 'open' | 'sealed' = 'open') =>
      buildTag({ ...input, ...change }, network, signal)
    const seen = new Map([[await tag(), 'first']])
    const isNew = async (what: string, one: Promise<string>) => {
      const name = await one
      t.match(name, /^iterion-egress-build:[\da-f]{40}$/)
      t.notOk(seen.has(name), `${what} is another image than ${seen.get(name) ?? ''}`)
      seen.set(name, what)
    }
    t.equal(await tag({ args: { B: '2', A: '1' } }), await tag(), 'the order of arguments is none')
    await isNew('sealed', tag({}, 'sealed'))
    await isNew('an argument', tag({ args: { A: '12', B: '' } }))
    await isNew('a stage', tag({ target: 'x' }))
    writeFileSync(path.join(input.context, 'a'), 'b')
    await isNew('content', tag())
    chmodSync(path.join(input.context, 'a'), 0o755)
    await isNew('a mode', tag())
    mkdirSync(path.join(input.context, 'empty'))
    await isNew('an empty folder', tag())
    symlinkSync('a', path.join(input.context, 'link'))
    await isNew('a link', tag())
    rmSync(path.join(input.context, 'link'))
    symlinkSync('/etc', path.join(input.context, 'link'))
    await isNew('where a link leads, which is not followed', tag())
    writeFileSync(input.dockerfile, 'FROM y')
    await isNew('the Dockerfile', tag())
  },
)

void tap.test('reading a context can be given up', async (t) => {
  const root = t.testdir({ a: 'a' })
  const input = { dockerfile: path.join(root, 'a'), context: root, args: {}, target: undefined }
  await t.rejects(buildTag(input, 'open', AbortSignal.abort()), { name: 'AbortError' })
})
