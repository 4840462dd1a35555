import tap from 'tap'
import { accountFiles, homeMounts, sandboxHome, userPlan } from '../../src/sandbox/account.ts'

const caller = { uid: 1000, gid: 1001 }

void tap.test('nobody pinned: the caller runs, and the record says in whose place', async (t) => {
  const rows = [
    ['', true],
    ['root', true],
    ['node', true],
    ['1001', true],
    ['1000:5', true],
    ['1000', false],
    ['1000:1001', false],
  ] as const
  for (const [imageUser, isRemapped] of rows) {
    const plan = userPlan({ pinned: undefined, imageUser, caller })
    const remap = isRemapped ? { remap: { from: imageUser, to: '1000:1001' } } : {}
    t.strictSame(plan, { user: '1000:1001', needsAccount: true, ...remap }, imageUser)
  }
})

void tap.test('root needs no account, and is no remap of an image that runs as root', async (t) => {
  const root = { uid: 0, gid: 0 }
  for (const imageUser of ['', '0', 'root', '0:0', 'root:root']) {
    const plan = userPlan({ pinned: undefined, imageUser, caller: root })
    t.strictSame(plan, { user: '0:0', needsAccount: false }, imageUser)
  }
  t.strictSame(userPlan({ pinned: undefined, imageUser: 'node', caller: root }), {
    user: '0:0',
    needsAccount: false,
    remap: { from: 'node', to: '0:0' },
  })
})

void tap.test('a pinned user who is not surely the caller is warned about', async (t) => {
  const rows = [
    ['1000', undefined],
    ['1000:1001', undefined],
    ['1000:7', undefined],
    ['1001', /belong to UID 1001/],
    ['root', /belong to UID 0/],
    ['0', /belong to UID 0/],
    ['node', /whether node is the caller depends on the image/],
    ['node:1001', /depends on the image/],
  ] as const
  for (const [pinned, message] of rows) {
    const plan = userPlan({ pinned, imageUser: 'node', caller })
    t.match(plan, { user: pinned, needsAccount: false, remap: undefined }, pinned)
    if (message === undefined) t.equal(plan.mismatch, undefined, pinned)
    else t.match(plan.mismatch, { user: pinned, caller: '1000:1001', message }, pinned)
  }
})

void tap.test('a rootless engine has root inside for the caller outside', async (t) => {
  const ids = 'root-is-caller'
  t.strictSame(userPlan({ pinned: undefined, imageUser: '', caller, ids }), {
    user: '0:0',
    needsAccount: false,
  })
  t.equal(userPlan({ pinned: 'root', imageUser: '', caller, ids }).mismatch, undefined)
  t.match(userPlan({ pinned: '1000', imageUser: '', caller, ids }).mismatch, { user: '1000' })
})

void tap.test(
  'an engine that gives the caller every file is left the user of the image',
  async (t) => {
    const ids = 'all-are-caller'
    t.strictSame(userPlan({ pinned: undefined, imageUser: 'node', caller, ids }), {
      user: '',
      needsAccount: false,
    })
    t.strictSame(userPlan({ pinned: 'node', imageUser: '', caller, ids }), {
      user: 'node',
      needsAccount: false,
    })
  },
)

void tap.test('passwd and group name the caller beside those of every image', async (t) => {
  t.strictSame(accountFiles({ ...caller, name: 'ada', home: '/home/ada' }), {
    passwd: [
      'root:x:0:0:root:/root:/bin/sh',
      '_apt:x:42:65534:_apt:/nonexistent:/usr/sbin/nologin',
      'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin',
      'ada:x:1000:1001:ada:/home/ada:/bin/sh',
      '',
    ].join('\n'),
    group: 'root:x:0:\ntty:x:5:\nnogroup:x:65534:\nada:x:1001:\n',
  })
})

void tap.test('every account has one line, whatever the caller is called', async (t) => {
  const rows = [
    ['ada', 'ada'],
    ['Ada Lovelace', 'ada_lovelace'],
    ['DOMAIN\\ada', 'domain_ada'],
    ['ada@corp.test', 'ada_corp_test'],
    ['root', 'sandbox'],
    ['tty', 'sandbox'],
    ['', 'sandbox'],
    ['-x', 'sandbox'],
    ['0', 'sandbox'],
    ['a:0:0\nevil', 'a_0_0_evil'],
    ['x'.repeat(40), 'x'.repeat(32)],
  ] as const
  for (const [name, clean] of rows) {
    const { passwd, group } = accountFiles({ ...caller, name, home: '/h' })
    t.equal(passwd.split('\n')[3], `${clean}:x:1000:1001:${clean}:/h:/bin/sh`, name)
    t.equal(passwd.split('\n').length, 5, name)
    t.equal(group.split('\n')[3], `${clean}:x:1001:`, name)
  }
})

void tap.test('a number that an image has already is taken over', async (t) => {
  const nobody = accountFiles({ uid: 65534, gid: 65534, name: 'svc', home: '/h' })
  t.equal(nobody.passwd.split('\n')[2], 'svc:x:65534:65534:svc:/h:/bin/sh')
  t.equal(nobody.group, 'root:x:0:\ntty:x:5:\nnogroup:x:65534:\n')
  const root = accountFiles({ uid: 0, gid: 0, name: 'root', home: '/root' })
  t.equal(root.passwd.match(/:x:0:/g)?.length, 1)
})

void tap.test('the home is that of the host, unless it would hide the image', async (t) => {
  const same = ['/home/ada', '/root', '/var/lib/jenkins', '/data/home/é x', '/Users/ada']
  for (const home of same) t.equal(sandboxHome(home), home)
  t.equal(sandboxHome('/home/ada/'), '/home/ada')
  const other = ['/', '', 'home/ada', '/usr', '/usr/sbin', '/bin', '/etc/x', '/dev', '/proc/1/root']
  other.push(
    '/var',
    '/home',
    '/tmp',
    '/run/user/1000',
    '/lib64',
    '/home/../usr',
    '/a:b',
    '/a,b',
    '/a\nb',
  )
  for (const home of other) t.equal(sandboxHome(home), '/home/sandbox', home)
})

void tap.test(
  'the home and each folder between it and a bind is made for the caller',
  async (t) => {
    const account = { ...caller, name: 'ada', home: '/home/ada' }
    const folders = (...targets: string[]) =>
      homeMounts(account, targets, 4096).map(({ target }) => target)
    t.strictSame(homeMounts(account, [], 4096), [
      {
        target: '/home/ada',
        mode: '0700',
        owner: { uid: 1000, gid: 1001 },
        sizeBytes: 4096,
        executable: true,
      },
    ])
    t.strictSame(folders('/home/ada/.claude', '/work', '/home/adam/x'), ['/home/ada'])
    t.strictSame(folders('/home/ada/src/deep/project'), [
      '/home/ada',
      '/home/ada/src',
      '/home/ada/src/deep',
    ])
    t.strictSame(
      folders('/home/ada/src/a', '/home/ada/src/a/.git', '/home/ada/src/a/.git/hooks'),
      ['/home/ada', '/home/ada/src'],
      'what is inside a bind is the host’s',
    )
  },
)
