import { existsSync } from 'node:fs'
import tap from 'tap'
import { programFile } from '../../src/door/program-file.ts'

void tap.test('a program is the built one, also from a tree of sources', async (t) => {
  for (const name of ['health', 'netns-helper', 'relay-program', 'wrap-helper']) {
    t.match(programFile(name), /\/dist\/program\/[\w-]+\.cjs$/)
    t.ok(existsSync(programFile(name)), name)
  }
})
