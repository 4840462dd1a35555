import path from 'node:path'
import { problemsError } from '../errors.ts'
import { inOrder, type ParseOptions } from '../policy/parse.ts'
import { checkShape } from '../policy/shape-problems.ts'
import { YamlSource } from '../policy/yaml-source.ts'
import type { Catalog } from '../presets/catalog.ts'
import { confineCatalog } from '../presets/confine.ts'
import { readSource } from '../presets/read-source.ts'
import { parseMountText } from './mount-text.ts'
import {
  EMPTY_BLOCK,
  type MountSpec,
  type NodeSpec,
  type SandboxBlock,
  type SecretSpec,
  type Workflow,
} from './spec.ts'
import { checkWorkflow } from './workflow-checks.ts'
import { readWorkflowNetwork } from './workflow-network.ts'
import {
  WORKFLOW_DIALECT,
  workflowKeys,
  workflowSchema,
  type WorkflowShape,
} from './workflow-schema.ts'

/**
 * Reads a workflow file. Presets that its policy names by path stay under its folder.
 *
 * @throws {EgressError} FILE_UNREADABLE, or all problems of the file at once as {@link parseWorkflow} does
 */
export function loadWorkflow(file: string, catalog: Catalog): Workflow {
  const confined = confineCatalog(catalog, path.dirname(file))
  return parseWorkflow(readSource(file), file, { checkPreset: (name) => confined.check(name) })
}

/**
 * Reads the text of a workflow file.
 *
 * @param file the path as it is to be shown
 * @throws {EgressError} with every problem of the file: POLICY_SYNTAX for what is no plain YAML, WORKFLOW_SHAPE, and
 *   under `network` the codes of a policy file
 */
export function parseWorkflow(text: string, file: string, options: ParseOptions = {}): Workflow {
  const source = new YamlSource(text, file)
  if (!source.isReadable) throw problemsError(inOrder(source))
  const value = source.toValue() ?? {}
  const shape = checkShape(source, workflowSchema, value, workflowKeys, WORKFLOW_DIALECT)
  checkWorkflow(source, value)
  const network = readWorkflowNetwork(source, value, options)
  if (source.problems.length > 0 || shape === undefined) throw problemsError(inOrder(source))
  return {
    file,
    name: shape.name,
    sandbox: readBlock(shape.sandbox, network),
    attachments: shape.attachments ?? [],
    secrets: (shape.secrets ?? []).map(readSecret),
    nodes: shape.nodes.map(readNode),
    said: value,
  }
}

function readBlock(
  sandbox: WorkflowShape['sandbox'],
  network: SandboxBlock['network'],
): SandboxBlock | undefined {
  if (sandbox === undefined) return undefined
  if (typeof sandbox === 'string') return { ...EMPTY_BLOCK, mode: sandbox }
  const { image, build } = sandbox
  return {
    mode: sandbox.mode ?? (image === undefined && build === undefined ? undefined : 'inline'),
    image,
    build: build && {
      dockerfile: build.dockerfile ?? path.join(build.context ?? '.', 'Dockerfile'),
      context: build.context ?? '.',
      args: build.args ?? {},
      target: build.target,
    },
    user: sandbox.user,
    workspaceFolder: sandbox.workspace_folder,
    hostState: sandbox.host_state,
    postCreate: sandbox.post_create,
    env: sandbox.env ?? {},
    mounts: (sandbox.mounts ?? []).map(readMount),
    network,
  }
}

type MountShape = string | { source: string; target: string; read_only?: boolean | undefined }

function readMount(mount: MountShape): MountSpec {
  if (typeof mount !== 'string') {
    return { source: mount.source, target: mount.target, readOnly: mount.read_only ?? false }
  }
  const read = parseMountText(mount)
  if ('message' in read) throw new TypeError(`a mount that was checked: ${read.message}`)
  return read
}

function readSecret({ name, as, from }: NonNullable<WorkflowShape['secrets']>[number]): SecretSpec {
  return { name, as, from: from.env === undefined ? { file: from.file ?? '' } : { env: from.env } }
}

function readNode({ id, backend, command, fallback }: WorkflowShape['nodes'][number]): NodeSpec {
  return { id, backend: backend ?? 'tool', command, fallback: fallback ?? [] }
}
