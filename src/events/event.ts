import { z } from 'zod'

// Every record that a proxy writes. The schemas are the one definition: types and docs/events.schema.json come from them.

const via = z.enum(['connect', 'forward', 'socks', 'transparent'])
const count = z.number().int().nonnegative()

const network = {
  host: z.string().describe('Canonical; what is no host is escaped and cut to 256 bytes.'),
  port: z.number().int().min(0).max(65535).describe('0 if the target names none.'),
  via: via.describe('How the client came.'),
  generation: count.describe('The number of the policy that decided.'),
}

const data = {
  network_blocked: z.strictObject({
    ...network,
    reason: z.string().describe('A reason of the list in docs/policy.md.'),
    rule: z.string().optional().describe('The rule that decided, as written.'),
    origin: z.string().optional().describe('Where that rule is written.'),
    address: z
      .string()
      .optional()
      .describe('The address that vetting refused or a dial failed on.'),
    sni: z.string().optional().describe('The server name that a TLS client asked for.'),
    detail: z.string().optional().describe('What went wrong, in words.'),
    count: count.optional().describe('How many more like this since the last record of it.'),
  }),
  network_blocked_summary: z.strictObject({
    count: count.describe(
      'Blocks over the rate of 100 records a second, or of more than 10,000 hosts.',
    ),
    quiet: count.describe('Blocks of hosts that the policy lists as quiet.'),
  }),
  network_allowed: z.strictObject({
    ...network,
    rule: z.string().optional(),
    origin: z.string().optional(),
    address: z.string().optional().describe('The vetted address that was dialled.'),
    in_tunnel: z
      .literal(true)
      .optional()
      .describe('It is a request inside a tunnel, which has a record of its own.'),
  }),
  tunnel_closed: z.strictObject({
    ...network,
    bytes_up: count.describe('Bytes from the client to the upstream.'),
    bytes_down: count.describe('Bytes from the upstream to the client.'),
    ms: count.describe('Milliseconds since the tunnel was answered.'),
    cause: z.enum(['end', 'reset', 'idle', 'drain', 'error']),
    tls: z
      .enum(['other-sni', 'no-sni', 'unparsable', 'incomplete'])
      .optional()
      .describe('What was noted about the first flight and let pass.'),
    sni: z.string().optional(),
    ech: z.boolean().optional().describe('True if the client offered encrypted client hello.'),
  }),
  policy_loaded: z.strictObject({ generation: count, digest: z.string(), rules: count }),
  policy_rejected: z.strictObject({ message: z.string() }),
  internal_error: z.strictObject({ message: z.string() }),
  events_lost: z.strictObject({ count, from_ts: z.string(), to_ts: z.string() }),
  sandbox_started: z.strictObject({
    image: z.string(),
    image_id: z.string().describe('The content that the image name meant.'),
    container: z.string().describe('The id of the container.'),
    runtime: z.enum(['docker', 'podman']),
    user: z.string().describe("UID:GID, a name, or empty for the image's user."),
    workspace: z.string(),
    resolve: z.array(z.string()).describe('Names that the operator answered for, as given.'),
    door: z.enum(['netns', 'sidecar', 'advisory', 'none']).describe('none: the network is open.'),
  }),
  sandbox_skipped: z.strictObject({
    reason: z.enum(['mode-none', 'no-runtime', 'not-asked-for']),
    seal: z
      .literal('process')
      .optional()
      .describe('The nodes are sealed as processes of this machine: the policy holds.'),
    code: z.string().optional().describe('C128 if somebody asked for no sandbox.'),
    file_secrets_dropped: z
      .literal(true)
      .optional()
      .describe('The workflow has secrets as files; without a sandbox they are not made.'),
  }),
  sandbox_refused: z.strictObject({ failure_code: z.string(), message: z.string() }),
  sandbox_network_defaulted: z.strictObject({
    preset: z.string(),
    source: z.string().describe('The file of the repository that chose the sandbox.'),
  }),
  sandbox_devcontainer_read: z.strictObject({
    file: z.string().describe('The file of the repository.'),
    ignored: z
      .array(z.strictObject({ key: z.string(), reason: z.string() }))
      .describe('What stands in it and does nothing here.'),
    withheld: z
      .array(z.string())
      .describe('Variables of the host that it asked for and did not get.'),
  }),
  sandbox_env_denied: z.strictObject({
    source: z.enum(['devcontainer', 'image']),
    names: z.array(z.string()).describe('The variables that were taken out; never their values.'),
  }),
  sandbox_network_sealed: z.strictObject({
    door: z.enum(['netns', 'sidecar', 'process']),
    strength: z.enum(['container', 'process']),
  }),
  sandbox_network_advisory: z.strictObject({
    message: z.string().describe('What this run does not keep in.'),
  }),
  sandbox_host_state_mounted: z.strictObject({
    mounts: z.array(
      z.strictObject({ source: z.string(), target: z.string(), read_only: z.boolean() }),
    ),
    skipped: z.array(z.strictObject({ path: z.string(), reason: z.string() })),
  }),
  sandbox_user_remap: z.strictObject({
    from: z.string().describe("The image's user; empty if it names none."),
    to: z.string().describe('UID:GID of the caller.'),
  }),
  sandbox_uid_mismatch_warning: z.strictObject({
    user: z.string(),
    caller: z.string(),
    message: z.string(),
  }),
  sandbox_floor_applied: z.strictObject({
    floor: z.string().describe('The variable and its value.'),
    shadowed: z.array(z.string()).describe('What was asked for and does not hold.'),
  }),
  sandbox_git_metadata_changed: z.strictObject({
    moved: z
      .array(z.strictObject({ path: z.string(), to: z.string() }))
      .describe('Files that make git run or read something else; they are put aside.'),
    failed: z
      .array(z.strictObject({ path: z.string(), reason: z.string() }))
      .describe('Such files that could not be put aside: look at them before you use git there.'),
  }),
  sandbox_build_started: z.strictObject({
    tag: z.string().describe('The name that the image gets: a digest of what goes into it.'),
    dockerfile: z.string(),
    builder: z.enum(['buildx', 'classic']),
  }),
  sandbox_build_finished: z.strictObject({ tag: z.string(), image_id: z.string() }),
  sandbox_build_failed: z.strictObject({
    tag: z.string(),
    stderr: z.string().describe('The end of what the builder said, up to 4 KiB.'),
  }),
  sandbox_claw_routed_via_runner: z.strictObject({
    reason: z.string(),
    limitations_v1: z.string().describe('What claw has not there.'),
    binary: z
      .string()
      .optional()
      .describe('The iterion of this machine that is bound; without it the image has to have one.'),
  }),
  sandbox_fallback_dropped: z.strictObject({
    node: z.string(),
    backend: z.string(),
    reason: z.string(),
  }),
  sandbox_setup_slow: z.strictObject({ phase: z.string(), knob: z.string(), bound_ms: count }),
  sandbox_setup_timeout: z.strictObject({ phase: z.string(), knob: z.string(), bound_ms: count }),
  sandbox_stopped: z.strictObject({
    status: z.string(),
    left_behind: z.array(z.string()).describe('What could not be removed; empty if all is gone.'),
  }),
  node_started: z.strictObject({ node: z.string(), backend: z.string() }),
  node_finished: z.strictObject({
    node: z.string(),
    exit_code: z.number().int().describe('128+N if signal N ended it.'),
  }),
  node_fallback: z.strictObject({
    node: z.string(),
    from: z.string().describe('The backend that failed.'),
    to: z.string().describe('The backend that takes the task now.'),
    exit_code: z.number().int(),
  }),
}

type DataSchemas = typeof data

/** The type of a record. */
export type EventType = keyof DataSchemas

/** What a record of a type holds. */
export type EventData<T extends EventType> = z.infer<DataSchemas[T]>

/** Something that happened, before it has a number and a time. */
export type EgressEvent = {
  [T in EventType]: {
    readonly type: T
    readonly data: EventData<T>
    /** True for a block that the policy wants no record of. */
    readonly quiet?: boolean
  }
}[EventType]

/** JSON Schema (draft 2020-12) of one line of the event log. */
export function eventJsonSchema(): Record<string, unknown> {
  const records = Object.entries(data).map(([type, schema]) =>
    z.strictObject({
      v: z.literal(1),
      seq: z
        .number()
        .int()
        .positive()
        .describe('Counts the records of one log from 1, without gaps.'),
      ts: z.string().describe('ISO 8601, UTC, milliseconds.'),
      run_id: z.string().nullable(),
      type: z.literal(type),
      data: schema,
    }),
  )
  return { ...z.toJSONSchema(z.union(records)), title: 'iterion-egress event' }
}
