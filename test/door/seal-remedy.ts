import tap from 'tap'
import { missingProgram, sealRemedy } from '../../src/door/seal-remedy.ts'

const NOTHING = () => undefined

void tap.test('what is turned off is named, with the way back', async (t) => {
  const complaint = 'unshare: unshare failed: Operation not permitted'
  for (const [name, value, way] of [
    ['kernel/unprivileged_userns_clone', '0\n', 'kernel.unprivileged_userns_clone=1'],
    [
      'kernel/apparmor_restrict_unprivileged_userns',
      '1\n',
      'kernel.apparmor_restrict_unprivileged_userns=0',
    ],
    ['user/max_user_namespaces', '0\n', 'user.max_user_namespaces=10000'],
    ['user/max_pid_namespaces', '0\n', 'user.max_pid_namespaces=10000'],
  ] as const) {
    const remedy = sealRemedy(complaint, (asked) => (asked === name ? value : undefined))
    t.match(remedy, `sysctl -w ${way}`, name)
  }
  const two = sealRemedy(complaint, (name) => (name.startsWith('user/max_') ? '0' : undefined))
  t.match(two, /max_user_namespaces=10000, sysctl -w user.max_net_namespaces=10000/)
})

void tap.test('what is missing is named', async (t) => {
  t.equal(sealRemedy('ip: not found', NOTHING), missingProgram('ip'))
  t.match(missingProgram('ip'), /iproute2/)
  t.match(missingProgram('unshare'), /util-linux/)
  t.match(sealRemedy("unshare: unrecognized option '--map-user=1'", NOTHING), /2\.36/)
  t.match(sealRemedy('mount: /run: permission denied.', NOTHING), /in a container/)
  t.match(sealRemedy('unshare failed: Operation not permitted', NOTHING), /in a container/)
  t.equal(sealRemedy('something else', NOTHING), undefined)
  t.doesNotThrow(() => sealRemedy('unshare failed: Operation not permitted'))
})
