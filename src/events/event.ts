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
