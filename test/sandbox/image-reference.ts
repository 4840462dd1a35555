import tap from 'tap'
import { isImageReference } from '../../src/sandbox/image-reference.ts'

const GOOD = [
  'debian',
  'debian:bookworm',
  'ghcr.io/acme/agent-tools:1.2.3',
  'localhost:5000/a/b_c:latest',
  `a@sha256:${'0'.repeat(64)}`,
  `sha256:${'0'.repeat(64)}`,
]
const BAD = [
  '',
  '-v/:/h',
  '--privileged',
  'a b',
  'a\tb',
  'a\n',
  '\0',
  'a\0',
  '/a',
  'a$b',
  'a;b',
  '\u00e4',
]

void tap.test(
  'the name of an image is told from an option, a blank or a control character',
  async (t) => {
    for (const text of GOOD) t.ok(isImageReference(text), text)
    for (const text of BAD) t.notOk(isImageReference(text), JSON.stringify(text))
    t.ok(isImageReference('a'.repeat(512)))
    t.notOk(isImageReference('a'.repeat(513)))
  },
)
