// A unit test earns coverage only for the file it is named for; integration, bypass and the like earn none of their own.
import { existsSync } from 'node:fs'

export default function coverageMap(test) {
  const source = test.replace(/^test\//, 'src/')
  return existsSync(source) ? source : null
}
