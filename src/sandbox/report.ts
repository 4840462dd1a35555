import type { EgressEvent } from '../events/event.ts'
import { usesClaw } from './backend.ts'
import type { Devcontainer } from './devcontainer/read-devcontainer.ts'
import type { Layout } from './layout.ts'
import type { RepositoryEnvironment } from './repository-env.ts'
import type { Workflow } from './spec.ts'

/** Who is told: people by lines, programs by events. */
interface Listener {
  readonly say: (line: string) => void
}

/** Tells what of the host is in a sandbox, and who runs there. */
export function reportLayout(
  { user, hostState, notes, clawBinary }: Layout,
  { say, workflow }: Listener & { readonly workflow: Pick<Workflow, 'nodes'> },
  emit: (event: EgressEvent) => void,
): void {
  for (const note of notes) say(note)
  if (hostState) {
    const mounts = hostState.mounts.map(({ source, target, readOnly }) => ({
      source,
      target,
      read_only: readOnly,
    }))
    const data = { mounts, skipped: hostState.skipped.map((one) => ({ ...one })) }
    emit({ type: 'sandbox_host_state_mounted', data })
  }
  if (usesClaw(workflow.nodes)) {
    emit({
      type: 'sandbox_claw_routed_via_runner',
      data: {
        reason: 'claw runs by iterion __claw-runner in the container',
        limitations_v1: 'no tools of the host, no questions to people',
        ...(clawBinary !== undefined && { binary: clawBinary }),
      },
    })
  }
  if (user.remap) emit({ type: 'sandbox_user_remap', data: user.remap })
  if (user.mismatch) {
    say(`warning: user ${user.mismatch.user}: ${user.mismatch.message}`)
    emit({ type: 'sandbox_uid_mismatch_warning', data: user.mismatch })
  }
}

/** Tells what a repository said, and what of it does not hold. */
export function reportRepository(
  { file, ignored, withheld }: Devcontainer,
  env: RepositoryEnvironment | undefined,
  { say }: Listener,
  emit: (event: EgressEvent) => void,
): void {
  for (const { key, reason } of ignored) say(`${file}: ${key}: ${reason}`)
  for (const name of withheld) {
    say(
      `${file}: ${name} of this machine is not given; --env ${name} gives it to containerEnv and remoteEnv`,
    )
  }
  emit({
    type: 'sandbox_devcontainer_read',
    data: { file, ignored: ignored.map((one) => ({ ...one })), withheld: [...withheld] },
  })
  for (const { source, names } of env?.denied ?? []) {
    // What images say of themselves is often among it: that is for the record.
    if (source === 'devcontainer') {
      say(`${file} may not set ${names.join(', ')}; sandbox.env of the workflow may`)
    }
    emit({ type: 'sandbox_env_denied', data: { source, names: [...names] } })
  }
}
