import tap from 'tap'
import {
  ALLOWED_CALLS,
  DENIED_CALLS,
  seccompProfile,
  SOCKET_FAMILIES,
} from '../../../src/sandbox/drivers/seccomp-profile.ts'

interface Profile {
  readonly defaultAction: string
  readonly syscalls: readonly {
    readonly names: readonly string[]
    readonly action: string
    readonly args?: readonly {
      readonly index: number
      readonly value: number
      readonly op: string
    }[]
  }[]
}

const PROFILE = JSON.parse(seccompProfile()) as Profile

/** The rules about a call: what they do, and for which first argument. */
function rulesOf(name: string) {
  return PROFILE.syscalls
    .filter(({ names }) => names.includes(name))
    .map(({ action, args }) => [action, args?.[0]?.value])
}

void tap.test('what is not named is refused', async (t) => {
  t.equal(PROFILE.defaultAction, 'SCMP_ACT_ERRNO')
  t.strictSame(rulesOf('a_call_of_tomorrow'), [])
})

void tap.test('a call is in one list, once', async (t) => {
  const denied = DENIED_CALLS.flatMap(({ names }) => names.split(' '))
  const all = [...ALLOWED_CALLS, ...denied]
  t.equal(new Set(all).size, all.length)
  for (const name of all) t.match(name, /^[a-z_][a-z\d_]*$/)
  for (const name of ['clone', 'clone3', 'personality', 'socket', 'socketpair']) {
    t.notOk(all.includes(name), `${name} is allowed by its arguments alone`)
  }
})

void tap.test('sockets are those of the own network, and files', async (t) => {
  t.strictSame(
    rulesOf('socket'),
    [1, 2, 10, 16].map((family) => ['SCMP_ACT_ALLOW', family]),
  )
  t.strictSame(Object.values(SOCKET_FAMILIES), [1, 2, 10, 16])
  t.strictSame(rulesOf('socketpair'), [['SCMP_ACT_ALLOW', 1]])
  t.strictSame(rulesOf('socketcall'), [['SCMP_ACT_ERRNO', undefined]])
  for (const name of ['io_uring_setup', 'io_uring_enter', 'io_uring_register']) {
    t.strictSame(rulesOf(name), [['SCMP_ACT_ERRNO', undefined]], name)
  }
})

void tap.test('no call makes a namespace', async (t) => {
  for (const name of ['unshare', 'setns', 'clone3', 'mount', 'pivot_root', 'open_by_handle_at']) {
    t.strictSame(rulesOf(name), [['SCMP_ACT_ERRNO', undefined]], name)
  }
  const [rule] = PROFILE.syscalls.filter(({ names }) => names.includes('clone'))
  t.match(rule?.args, [{ index: 0, value: 0x7e020000, op: 'SCMP_CMP_MASKED_EQ' }])
})

void tap.test('what every program needs is there', async (t) => {
  const needed =
    'read write openat mmap execve fork vfork wait4 futex epoll_wait connect bind listen accept4'
  for (const name of needed.split(' ')) t.ok(ALLOWED_CALLS.includes(name), name)
})
