import path from 'node:path'
import { z } from 'zod'
import type { ShapeDialect } from '../policy/shape-problems.ts'
import { BACKENDS } from './backend.ts'
import { MAX_WORD_BYTES } from './env-file.ts'
import { isImageReference } from './image-reference.ts'

// The shape of workflow.yaml. What two keys say together is checked in workflow-checks.ts; `network` is read by the same
// code as a policy file.

const ENV_NAME = /^[A-Za-z_]\w*$/
const NODE_ID = /^[A-Za-z0-9][\w.-]{0,63}$/
/** A name of a passwd file, or numbers. */
const USER = /^(?:[A-Za-z_][\w.-]{0,31}|\d{1,10}(?::\d{1,10})?)$/
/** The kernel keeps the number after this one for "no user". */
const MAX_ID = 4_294_967_294
/** Trees of the kernel: what is mounted there hides what programs rely on. */
const KERNEL_TREES = ['/proc', '/sys', '/dev']

/** True for the name of a variable. `__proto__` is one that no JavaScript reader keeps. */
export function isEnvName(text: string): boolean {
  return ENV_NAME.test(text) && text !== '__proto__'
}

/** True for who a command may run as: a name of a passwd file, or numbers. */
export function isUser(text: string): boolean {
  return (
    USER.test(text) && !text.split(':').some((part) => /^\d/.test(part) && Number(part) > MAX_ID)
  )
}

/** True for a place inside where a workspace may stand. */
export function isWorkspaceFolder(text: string): boolean {
  if (!text.startsWith('/') || text === '/' || text.endsWith('/')) return false
  if (path.posix.normalize(text) !== text || hasControls(text)) return false
  return !KERNEL_TREES.some((tree) => text === tree || text.startsWith(`${tree}/`))
}

function hasControls(text: string): boolean {
  return /\p{Cc}/u.test(text)
}

const noNul = z.string().refine((text) => !text.includes('\0'), 'a text without NUL')
const commandLine = noNul
  .refine((text) => text.trim() !== '', 'a command')
  .refine((text) => Buffer.byteLength(text) <= MAX_WORD_BYTES, 'a text of less than 128 KiB')
const envName = z.string().refine(isEnvName, 'the name of a variable: letters, digits and _')
const filePath = z
  .string()
  .refine((text) => text !== '' && !hasControls(text), 'a path without control characters')
const image = z
  .string()
  .refine(
    isImageReference,
    'the name of an image, such as "debian:bookworm", without blanks or a dash in front',
  )

const mount = z.strictObject({
  source: filePath.describe('A relative one starts at the folder of the workflow file.'),
  target: filePath.describe('An absolute path in the sandbox.'),
  read_only: z.boolean().optional().describe('Default: false.'),
})

const block = z.strictObject({
  mode: z
    .enum(['none', 'auto', 'inline'])
    .optional()
    .describe('Default: inline beside image or build; else whoever is asked next decides.'),
  image: image.optional(),
  build: z
    .strictObject({
      dockerfile: filePath.optional().describe('Default: Dockerfile of the context.'),
      context: filePath.optional().describe('Default: the folder of the workflow file.'),
      args: z.record(z.string(), noNul).optional(),
      target: z
        .string()
        .regex(/^[A-Za-z0-9][\w.-]{0,127}$/, 'the name of a stage')
        .optional()
        .describe('Default: the last stage.'),
    })
    .optional(),
  user: z
    .string()
    .refine(isUser, 'a name, UID or UID:GID')
    .optional()
    .describe('Who runs in it. Default: UID and GID of the caller.'),
  workspace_folder: z
    .string()
    .refine(
      isWorkspaceFolder,
      'an absolute path without . and .., not /, and not in /proc, /sys or /dev',
    )
    .optional()
    .describe('Where the workspace stands in the sandbox. Default: where it stands outside.'),
  host_state: z.enum(['auto', 'none']).optional().describe('Default: none.'),
  post_create: commandLine.optional().describe('A line for sh, once, before the first node.'),
  env: z.record(z.string(), noNul).optional(),
  mounts: z.array(z.union([z.string(), mount])).optional(),
  network: z.unknown().optional().describe('open, or a map with the keys of a policy file.'),
})

const secret = z.strictObject({
  name: envName,
  as: z.enum(['env', 'file']),
  from: z
    .strictObject({ env: envName.optional(), file: filePath.optional() })
    .describe('Either env: a variable of the caller, or file: a file of the host.'),
})

const node = z.strictObject({
  id: z
    .string()
    .regex(NODE_ID, 'up to 64 letters, digits, dots, hyphens and _, the first a letter or digit'),
  backend: z.enum(BACKENDS).optional().describe('Default: tool.'),
  command: z.union([
    commandLine,
    z.array(noNul).refine(([program = '']) => program !== '', 'a list that begins with a program'),
  ]),
  fallback: z
    .array(z.enum(BACKENDS))
    .optional()
    .describe('Backends that take the task, in order, if the one before failed. Default: none.'),
})

/** The shape of a workflow file. */
export const workflowSchema = z.strictObject({
  version: z.literal(1).optional().describe('The version of this format.'),
  name: z
    .string()
    .refine(
      (text) => /^\S(?:.{0,98}\S)?$/u.test(text) && !hasControls(text),
      'a name of up to 100 characters',
    ),
  sandbox: z
    .union([z.enum(['auto', 'none']), block])
    .optional()
    .describe('auto, none, or a map. Default: whoever is asked next decides.'),
  attachments: z.array(filePath).optional(),
  secrets: z.array(secret).optional(),
  nodes: z.array(node).refine((list) => list.length > 0, 'at least one node'),
})

export type WorkflowShape = z.infer<typeof workflowSchema>

const KEYS: readonly [place: RegExp, keys: readonly string[]][] = [
  [/^$/, Object.keys(workflowSchema.shape)],
  [/^sandbox$/, Object.keys(block.shape)],
  [/^sandbox\.build$/, ['dockerfile', 'context', 'args', 'target']],
  [/^sandbox\.mounts\.\d+$/, Object.keys(mount.shape)],
  [/^secrets\.\d+$/, Object.keys(secret.shape)],
  [/^secrets\.\d+\.from$/, ['env', 'file']],
  [/^nodes\.\d+$/, Object.keys(node.shape)],
]

/** The keys that may stand at a place of a workflow file. */
export function workflowKeys(place: readonly PropertyKey[]): readonly string[] {
  const text = place.map(String).join('.')
  return KEYS.find(([pattern]) => pattern.test(text))?.[1] ?? []
}

/** Keys that people look for elsewhere than where they stand. */
const BLOCK_KEYS = new Set(Object.keys(block.shape))
const POLICY_WORDS = new Set([
  'policy',
  'preset',
  'presets',
  'rules',
  'ports',
  'tls',
  'quiet',
  'limits',
])

/** How the problems of a workflow are told. */
export const WORKFLOW_DIALECT: ShapeDialect = {
  code: 'WORKFLOW_SHAPE',
  explainKey(place, key) {
    const named = JSON.stringify(key)
    if (POLICY_WORDS.has(key) && (place.length === 0 || isSandbox(place))) {
      return `unknown key ${named}; the policy of a run stands in sandbox, under network`
    }
    if (place.length === 0 && BLOCK_KEYS.has(key)) {
      return `unknown key ${named}; it stands in sandbox: sandbox: {${key}: ...}`
    }
    return undefined
  },
  unionHint(place) {
    if (isSandbox(place)) return 'expected auto, none, or a map'
    if (place.includes('mounts'))
      return 'a mount is "SOURCE:TARGET[:ro]" or a map with source and target'
    return 'a command is a text for sh or a list of words'
  },
  spell: () => undefined,
}

function isSandbox(place: readonly PropertyKey[]): boolean {
  return place.length === 1 && place[0] === 'sandbox'
}
