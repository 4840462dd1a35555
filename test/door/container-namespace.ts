import tap from 'tap'
import { isCgroupOf, openNamespaceOf } from '../../src/door/container-namespace.ts'

const ID = 'ab12'.repeat(16)
const OTHER = 'cd34'.repeat(16)

void tap.test('a cgroup names the container, in every spelling', async (t) => {
  const rows: [text: string, isOurs: boolean][] = [
    [`12:pids:/docker/${ID}\n11:memory:/docker/${ID}\n0::/system.slice/containerd.service\n`, true],
    [`0::/system.slice/docker-${ID}.scope\n`, true],
    [`0::/../../system.slice/docker-${ID}.scope\n`, true],
    [`0::/machine.slice/libpod-${ID}.scope/container\n`, true],
    [`4:pids:/libpod_parent/libpod-${ID}\n`, true],
    [`1:name=systemd:/user.slice/user@0/libpod-payload-${ID}\n`, true],
    [`0::/docker/${OTHER}/docker/${ID}\n`, true],
    [`0::/docker/${ID}/docker/${OTHER}\n`, false],
    [`0::/docker/${OTHER}\n`, false],
    [`12:pids:/docker/${ID}\n11:memory:/docker/${OTHER}\n`, false],
    [`0::/docker/${ID.slice(0, 12)}\n`, false],
    [`0::/docker/x${ID}\n`, false],
    [`0::/docker/${ID}x\n`, false],
    [`0::/evil-${ID}.scope\n`, false],
    [`1:name=/docker/${ID}:/\n`, false],
    ['0::/\n', false],
    ['', false],
  ]
  for (const [text, isOurs] of rows) t.equal(isCgroupOf(text, ID), isOurs, text)
  t.equal(isCgroupOf('0::/docker/\n', ''), false)
})

void tap.test('a process that is not in the container is refused', async (t) => {
  const refused = (pid: number, message: RegExp) =>
    t.throws(() => openNamespaceOf(pid, ID), { code: 'SANDBOX_DOOR_FAILED', message })
  refused(process.pid, /not in the container/)
  for (const pid of [0, -1, Number.NaN]) refused(pid, /does not run/)
  refused(4_194_305, /cannot be opened/)
})
