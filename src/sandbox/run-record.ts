import { z } from 'zod'

/** How a run stands. `failed_resumable` may be resumed from its checkpoint; the others have come to an end. */
export const RUN_STATUSES = [
  'running',
  'finished',
  'failed',
  'failed_resumable',
  'cancelled',
] as const

/** A process, as records name it. */
export const identitySchema = z.object({
  bootId: z.string(),
  pidNamespace: z.string(),
  pid: z.number().int(),
  startTime: z.string(),
})

/** What `run.json` holds. Unknown keys of a later version are kept out, not refused. */
export const runRecordSchema = z.object({
  v: z.literal(1),
  id: z.string(),
  name: z.string(),
  status: z.enum(RUN_STATUSES),
  failure_code: z.string().nullable(),
  error: z.string().nullable(),
  retry_class: z.enum(['deterministic', 'transient']).nullable(),
  created_at: z.string(),
  updated_at: z.string(),
  /** How often it was started: 1 for a run that was never resumed. */
  attempt: z.number().int(),
  owner: identitySchema,
  workspace: z.string(),
  /** The folder with what lives as long as the run; the reaper removes it if the run could not. */
  scratch: z.string().nullable(),
  container: z.string().nullable(),
  /** `process`: the nodes of the last attempt ran without a container, sealed as processes of this machine. */
  seal: z.enum(['process']).nullable().optional(),
  /** What `resume` reads again. */
  source: z.object({
    /** The absolute path of the workflow file; null if the command line was the workflow. */
    file: z.string().nullable(),
    image: z.string().nullable(),
    policy: z.string().nullable(),
    command: z.array(z.string()).nullable(),
    preset_dirs: z.array(z.string()),
    /** The folder of the repository that may define the sandbox; null if there is none. */
    repository: z.string().nullable().optional(),
  }),
  /** What the command line said beside the workflow; `resume` says it again. */
  flags: z.object({
    sandbox: z.enum(['none', 'auto', 'inline']).nullable(),
    default_image: z.string().nullable(),
    host_state: z.enum(['auto', 'none']).nullable(),
    door: z.enum(['auto', 'netns', 'sidecar', 'advisory']),
    sidecar_image: z.string().nullable(),
    resolve: z.array(z.string()),
    /** Names alone: values are for the operator to give again. */
    env: z.array(z.string()),
  }),
  spec_digest: z.string(),
  policy_digest: z.string().nullable(),
  checkpoint: z.object({
    /** The nodes that are done, in order. */
    done: z.array(z.object({ node: z.string(), exit_code: z.number().int() })),
    /** The node that was under way or comes next; null if all are done. */
    next: z.string().nullable(),
  }),
  /** The exit code of the last command that ended. */
  exit_code: z.number().int().nullable(),
})

/** One run as it is recorded. */
export type RunRecord = z.infer<typeof runRecordSchema>
