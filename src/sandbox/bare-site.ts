import { EgressError } from '../errors.ts'
import { nodeProgram, type NodeProgram, usesClaw } from './backend.ts'
import { findIterion } from './claw-binary.ts'
import type { SandboxHost } from './host.ts'
import { realStat } from './paths.ts'
import { deliveredSecrets, readSecrets } from './secrets.ts'
import type { NodeSpec, Workflow } from './spec.ts'

/** Where nodes run that have no sandbox. */
export interface BareSite {
  /** The variables of their secrets. */
  readonly secretEnv: Readonly<Record<string, string>>
  program(node: NodeSpec): NodeProgram
}

/**
 * What the nodes of a run without a sandbox are started with. A run and its forecast ask here.
 *
 * @throws {EgressError} OPTION_INVALID for a workspace that is no folder, a secret that is nowhere, an `ITERION_BIN` that is
 * no program; FILE_UNREADABLE
 */
export function bareSite(host: SandboxHost, workflow: Workflow, workspace: string): BareSite {
  if (realStat(workspace)?.isFolder !== true) {
    throw new EgressError('OPTION_INVALID', `the workspace ${workspace} is not a folder`)
  }
  const secrets = deliveredSecrets(workflow.secrets, false)
  const { env } = readSecrets({ ...workflow, secrets }, host, workspace)
  const iterion = (usesClaw(workflow.nodes) && findIterion(host)) || 'iterion'
  return {
    secretEnv: env,
    program: (node) => nodeProgram(node, { iterion, workdir: workspace }),
  }
}
