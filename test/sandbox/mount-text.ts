import tap from 'tap'
import { parseMountText } from '../../src/sandbox/mount-text.ts'

const GOOD: [text: string, source: string, target: string, readOnly: boolean][] = [
  ['/a:/b', '/a', '/b', false],
  ['/a:/b:ro', '/a', '/b', true],
  ['/a:/b:rw', '/a', '/b', false],
  ['./a:/b', './a', '/b', false],
  ['../a:/b', '../a', '/b', false],
  ['type=bind,source=/a,target=/b', '/a', '/b', false],
  ['type=bind,src=/a,dst=/b,readonly', '/a', '/b', true],
  ['source=a,destination=/b,ro', 'a', '/b', true],
  ['readonly,source=/a,target=/b', '/a', '/b', true],
  ['target=/b,source=/a=b:c,readonly=true', '/a=b:c', '/b', true],
  ['source=/a,target=/b,ro=1', '/a', '/b', true],
  ['source=/a,target=/b,ro=0', '/a', '/b', false],
  ['source=/a,target=/b,readonly=false', '/a', '/b', false],
]

const BAD: [text: string, message: RegExp, correction?: string][] = [
  ['', /^a mount is SOURCE:TARGET/],
  ['/a', /^a mount is/],
  [':/b', /^a mount is/],
  ['/a:', /^a mount is/],
  ['/a:/b:ro:z', /^a mount is/],
  ['/a:/b:z', /^the option "z" of a mount is not known; there are ro and rw$/],
  ['/a:/b:ro,z', /^the option "ro,z"/],
  ['/a:/b:', /^the option ""/],
  ['cache:/b', /^"cache" names a volume/, '"./cache:/b"'],
  ['type=volume,source=a,target=/b', /^a mount has the type bind$/],
  ['type=tmpfs,target=/b', /^a mount has the type bind$/],
  ['type=bind,target=/b', /^a mount needs a source and a target$/],
  ['type=bind,source=,target=/b', /^a mount needs a source and a target$/],
  ['type=bind,source=/a', /^a mount needs a source and a target$/],
  ['type=bind,source=/a,src=/c,target=/b', /^the option source of a mount is given twice$/],
  ['type=bind,source=/a,target=/b,readonly,ro', /^the option readonly of a mount is given twice$/],
  ['type=bind,source=/a,target=/b,bind-propagation=shared', /^the option "bind-propagation"/],
  ['type=bind,source=/a,target=/b,', /^the option "" of a mount/],
  ['type=bind,source=/a,target=/b,readonly=yes', /^readonly is "yes"; expected true or false$/],
  ['type=bind,source=/a,target=/b,readonly=', /^readonly is ""/],
]

void tap.test('a mount is read in both of the forms that docker knows', async (t) => {
  for (const [text, source, target, readOnly] of GOOD) {
    t.strictSame(parseMountText(text), { source, target, readOnly }, text)
  }
})

void tap.test('what is no bind, or has an option that would not hold, is refused', async (t) => {
  for (const [text, message, correction] of BAD) {
    const fault = parseMountText(text)
    t.match(fault, { message }, text)
    t.equal('correction' in fault ? fault.correction : undefined, correction, text)
  }
})
