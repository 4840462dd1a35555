import tap from 'tap'
import { parseMountEntry } from '../../../src/sandbox/devcontainer/mount-entry.ts'

const BIND = { type: 'bind', source: '/s', target: '/t', readOnly: false }
const VOLUME = { type: 'volume', source: 'v', target: '/t', readOnly: false }
const READ_ONLY = { ...BIND, readOnly: true }

const TAKEN: [written: unknown, entry: object][] = [
  ['type=bind,source=/s,target=/t', BIND],
  ['source=/s,target=/t,type=bind,consistency=cached', BIND],
  ['source=/s,target=/t,type=bind,Consistency=Cached', BIND],
  ['type=bind,src=/s,dst=/t', BIND],
  ['type=bind,src=/s,destination=/t', BIND],
  ['TYPE=bind,Source=/s,TARGET=/t', BIND],
  ['type=BIND,source=/s,target=/t', BIND],
  ['type=bind,source=/s,target=/t,readonly', READ_ONLY],
  ['type=bind,source=/s,target=/t,ro', READ_ONLY],
  ['type=bind,source=/s,target=/t,ro=true', READ_ONLY],
  ['type=bind,source=/s,target=/t,readonly=1', READ_ONLY],
  ['type=bind,source=/s,target=/t,readonly=TRUE', READ_ONLY],
  ['type=bind,source=/s,target=/t,readonly=false', BIND],
  ['type=bind,source=/s,target=/t,readonly=0', BIND],
  ['type=bind,source=/a=b,target=/t', { ...BIND, source: '/a=b' }],
  ['source=v,target=/t,type=volume', VOLUME],
  ['source=v,target=/t', VOLUME],
  ['target=/t', { ...VOLUME, source: '' }],
  ['type=volume,source=v,target=/t,volume-nocopy', VOLUME],
  ['type=volume,source=v,target=/t,volume-nocopy=true', VOLUME],
  ['type=tmpfs,target=/t', { ...VOLUME, type: 'tmpfs', source: '' }],
  // One line of CSV.
  ['"type=bind","source=/a,b",target=/t', { ...BIND, source: '/a,b' }],
  ['type=bind,"source=/a""b",target=/t', { ...BIND, source: '/a"b' }],
  ['type=bind,source=/s,target=/t,"readonly"', READ_ONLY],
  // An object.
  [{ type: 'bind', source: '/s', target: '/t' }, BIND],
  [{ source: 'v', target: '/t' }, VOLUME],
  [{ type: 'bind', source: '/s', target: '/t', readonly: true }, READ_ONLY],
  [
    { type: 'bind', source: '/s', target: '/t', readOnly: 'true', consistency: 'cached' },
    READ_ONLY,
  ],
  [
    { type: 'bind', source: '/a,type=volume', target: '/t' },
    { ...BIND, source: '/a,type=volume' },
  ],
]

void tap.test('a mount is read as docker reads it', async (t) => {
  for (const [written, entry] of TAKEN) {
    t.strictSame(parseMountEntry(written), entry, JSON.stringify(written))
  }
})

const REFUSED: [written: unknown, fault: string][] = [
  [undefined, 'a mount is a text or an object'],
  [null, 'a mount is a text or an object'],
  [1, 'a mount is a text or an object'],
  [['type=bind'], 'a mount is a text or an object'],
  ['', 'its option "" is not taken'],
  ['/s:/t', 'its option "/s:/t" is not taken'],
  ['type=bind,source=/s,target=/t,', 'its option "" is not taken'],
  ['type=bind,source=/s, target=/t', 'its option " target" is not taken'],
  ['type=bind,source=/s', 'it has no target'],
  ['type=bind,source=/s,target=', 'it has no target'],
  ['type=bind,target=/t', 'it has no source'],
  ['type=bind,source=,target=/t', 'it has no source'],
  ['type=bind,source,target=/t', 'its source has no value'],
  ['type=npipe,source=/s,target=/t', 'its type "npipe" is not taken'],
  ['type=,source=/s,target=/t', 'its type "" is not taken'],
  ['type=cluster,source=/s,target=/t', 'its type "cluster" is not taken'],
  // Docker takes the last of two: who reads the first would judge another mount.
  ['type=bind,source=/s,source=/,target=/t', 'its source is given twice'],
  ['type=bind,source=/s,SRC=/,target=/t', 'its source is given twice'],
  ['type=bind,source=/s,target=/t,dst=/u', 'its target is given twice'],
  ['type=bind,source=/s,target=/t,readonly,ro=false', 'its readonly is given twice'],
  ['type=volume,type=bind,source=/s,target=/t', 'its type is given twice'],
  // What could change what is reached.
  [
    'type=bind,source=/s,target=/t,bind-propagation=shared',
    'its option "bind-propagation" is not taken',
  ],
  [
    'type=bind,source=/s,target=/t,bind-nonrecursive',
    'its option "bind-nonrecursive" is not taken',
  ],
  ['type=volume,target=/t,volume-driver=local', 'its option "volume-driver" is not taken'],
  ['target=/t,"volume-opt=type=none,o=bind,device=/"', 'its option "volume-opt" is not taken'],
  ['target=/t,volume-label=a', 'its option "volume-label" is not taken'],
  ['target=/t,volume-subpath=..', 'its option "volume-subpath" is not taken'],
  ['type=tmpfs,target=/t,tmpfs-mode=1777', 'its option "tmpfs-mode" is not taken'],
  ['type=bind,source=/s,target=/t,relabel=shared', 'its option "relabel" is not taken'],
  ['type=bind,source=/s,target=/t,U=true', 'its option "U" is not taken'],
  ['type=bind,source=/s,target=/t,consistency=bad', 'its option "consistency" is not taken'],
  ['type=bind,source=/s,target=/t,consistency', 'its option "consistency" is not taken'],
  ['target=/t,volume-nocopy=yes', 'its option "volume-nocopy" is not taken'],
  ['target=/t,constructor=x', 'its option "constructor" is not taken'],
  ['type=bind,source=/s,target=/t,readonly=yes', 'readonly is true or false'],
  ['type=bind,source=/s,target=/t,readonly=', 'readonly is true or false'],
  // Quotes that docker refuses too.
  ['type=bind,"source=/s,target=/t', 'a quote in it is not closed'],
  ['type=bind,"source=/s"x,target=/t', 'a quote in it is not closed'],
  ['type=bind,source="/s",target=/t', 'a quote in it is not closed'],
  ['type=bind,source=/s"x,target=/t', 'a quote in it is not closed'],
  // Objects whose names would be fields.
  [{ 'type=bind,source': '/s', target: '/t' }, 'its option "type=bind,source" is not taken'],
  [{ 'source=/': '', target: '/t' }, 'its option "source=/" is not taken'],
  [{ type: 'bind', source: '/s', Source: '/', target: '/t' }, 'its source is given twice'],
  [{ type: 'bind', source: ['/s'], target: '/t' }, '"source" is neither a text nor true or false'],
  [{ type: 'bind', source: null, target: '/t' }, '"source" is neither a text nor true or false'],
  [
    { type: 'volume', source: 'v', target: '/t', external: true },
    'its option "external" is not taken',
  ],
  [Object.fromEntries([['__proto__', 'x']]), 'its option "__proto__" is not taken'],
]

void tap.test('what docker would read in two ways, or not at all, is refused', async (t) => {
  for (const [written, fault] of REFUSED) {
    t.strictSame(parseMountEntry(written), { fault }, JSON.stringify(written))
  }
})

void tap.test('a line break ends no mount, as it does for docker', async (t) => {
  const entry = parseMountEntry('type=bind,source=/s,target=/t\n,source=/')
  t.strictSame(entry, { fault: 'its source is given twice' })
  t.match(parseMountEntry('type=volume,target=/t\n'), { target: '/t\n' })
})

void tap.test('a long mount is read in linear time', async (t) => {
  for (const unit of [',', '""', '"a",', 'a', '="']) {
    const started = Date.now()
    t.ok('fault' in parseMountEntry(unit.repeat(500_000 / unit.length)))
    t.ok('fault' in parseMountEntry(`"${unit.repeat(500_000 / unit.length)}`))
    t.ok(Date.now() - started < 3_000, unit)
  }
})
