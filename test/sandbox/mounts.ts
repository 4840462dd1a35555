import tap from 'tap'
import { EgressError } from '../../src/errors.ts'
import { type BindMount, mergeMounts, mountArg } from '../../src/sandbox/mounts.ts'

const bind = (source: string, target = source, readOnly = false): BindMount => ({
  source,
  target,
  readOnly,
})

function failure(action: () => unknown): string {
  try {
    action()
  } catch (error) {
    return error instanceof EgressError ? `${error.code}: ${error.message}` : String(error)
  }
  return 'nothing was thrown'
}

void tap.test('a bind is written as the engine reads it', async (t) => {
  const rows = [
    ['/a', 'type=bind,source=/a,target=/t'],
    ['/a=b', 'type=bind,source=/a=b,target=/t'],
    ['/a,b', 'type=bind,"source=/a,b",target=/t'],
    ['/a"b', 'type=bind,"source=/a""b",target=/t'],
    ['/a b', 'type=bind,"source=/a b",target=/t'],
    ['/a,readonly', 'type=bind,"source=/a,readonly",target=/t'],
    ["/a'b\\c$d", "type=bind,source=/a'b\\c$d,target=/t"],
  ] as const
  for (const [source, expected] of rows) t.equal(mountArg(bind(source, '/t')), expected)
  t.equal(
    mountArg(bind('/a', '/t "x",y', true)),
    'type=bind,source=/a,"target=/t ""x"",y",readonly',
  )
})

void tap.test('a path with a control character is refused', async (t) => {
  for (const path of ['/a\nb', '/a\r\nb', '/a\tb', '/a\0b', '/a\u0085b']) {
    t.match(
      failure(() => mountArg(bind(path, '/t'))),
      /^SANDBOX_SPEC_UNSAFE: .* control/,
    )
    t.match(
      failure(() => mountArg(bind('/a', path))),
      /^SANDBOX_SPEC_UNSAFE: .* control/,
    )
  }
})

void tap.test('parents come before children, and the order of equals is kept', async (t) => {
  const merged = mergeMounts(
    [bind('/h/w/.git/hooks'), bind('/h/w/.git')],
    [bind('/x', '/m'), bind('/h/w'), bind('/y', '/n')],
  )
  t.strictSame(
    merged.map(({ target }) => target),
    ['/m', '/n', '/h/w', '/h/w/.git', '/h/w/.git/hooks'],
  )
})

void tap.test('what is asked for twice is bound once, and read-only wins', async (t) => {
  for (const [first, second] of [
    [true, false],
    [false, true],
    [true, true],
  ] as const) {
    t.strictSame(mergeMounts([bind('/a', '/t', first)], [bind('/a', '/t', second)]), [
      bind('/a', '/t', true),
    ])
  }
  t.strictSame(mergeMounts([bind('/a')], [bind('/a')]), [bind('/a')])
  t.match(
    failure(() => mergeMounts([bind('/a', '/t')], [bind('/b', '/t')])),
    'SANDBOX_SPEC_UNSAFE: /t would be both /a and /b',
  )
})
