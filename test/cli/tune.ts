import { execFileSync } from 'node:child_process'
import { pathToFileURL } from 'node:url'
import path from 'node:path'
import tap from 'tap'

const TUNE = pathToFileURL(path.resolve(import.meta.dirname, '../../dist/cli/tune.js'))

/** Makes many objects that live for a while, in a process of its own; answers the MiB that young ones have then. */
function youngAfterLoad(prelude: string): number {
  const script = `
import { getHeapSpaceStatistics } from 'node:v8'
${prelude}
const kept = []
for (let i = 0; i < 500_000; i++) {
  kept[i % 60_000] = { i, list: [i] }
  if (i % 4_000 === 0) await new Promise((resolve) => setTimeout(resolve, 30))
}
const young = getHeapSpaceStatistics().find(({ space_name }) => space_name === 'new_space')
process.stdout.write(String(young.space_size / 2 ** 20))
`
  const words = ['--input-type=module', '--eval', script]
  return Number(execFileSync(process.execPath, words, { encoding: 'utf8' }))
}

void tap.test('the room for young objects grows up to a limit', async (t) => {
  t.ok(youngAfterLoad('') > 16, 'V8 gives more')
  const tune = `import { tuneForConnections } from ${JSON.stringify(TUNE.href)}\ntuneForConnections()`
  const young = youngAfterLoad(tune)
  t.ok(young >= 8 && young <= 16, String(young))
})
