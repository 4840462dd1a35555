import { z } from 'zod'

const port = z.number().int().min(1).max(65535)
/** One entry of a list of ports. */
export const portItem = z.union([
  port,
  z.string().regex(/^(?:\d{1,5}(?:-\d{1,5})?|\*)$/, 'a port, a range LO-HI in quotes, or "*"'),
])

const ruleObject = z.strictObject({
  host: z
    .string()
    .describe('The pattern, with `!` in front for an exclusion. A port may stand behind a colon.'),
  ports: z
    .array(portItem)
    .optional()
    .describe('Ports or ranges; default: the `ports` of the file.'),
  private: z.boolean().optional().describe('This exact name may resolve to a private address.'),
  wide: z.boolean().optional().describe('The pattern is meant to be as wide as a public suffix.'),
  note: z.string().optional().describe('Why the rule is there.'),
  until: z.string().optional().describe('The rule ends then: date, time and zone (ISO 8601).'),
})

const presetRuleObject = z.strictObject({
  host: ruleObject.shape.host,
  ports: ruleObject.shape.ports,
  note: z.string().min(1).describe('Which client needs it, for which step.'),
  source: z.string().optional().describe('Where that is documented.'),
  verified: z.string().optional().describe('The day it was last checked, YYYY-MM-DD.'),
  exfiltration: z
    .enum(['none', 'own-account', 'anybody'])
    .optional()
    .describe('Who can receive data through this host.'),
})

const rule = z.union([z.string(), ruleObject])
const names = z.array(z.string())

const tests = z.strictObject({
  allow: names.optional().describe('Targets that the policy must allow.'),
  deny: names.optional().describe('Targets that the policy must deny.'),
})

const milliseconds = z.number().int().min(0).max(2_147_483_647)
const count = z.number().int().min(0).max(1_000_000)

const limits = z.strictObject({
  maxHeadBytes: z.number().int().min(1024).max(1_048_576).optional(),
  headTimeoutMs: milliseconds.optional(),
  resolveTimeoutMs: milliseconds.optional(),
  dialTimeoutMs: milliseconds.optional(),
  firstFlightTimeoutMs: milliseconds.optional(),
  maxTunnels: count.optional(),
  maxTunnelsPerClient: count.optional(),
  drainTimeoutMs: milliseconds.optional(),
  tunnelIdleMs: milliseconds.optional(),
  responseIdleMs: milliseconds.optional(),
})

/** The shape of a policy file. */
export const policySchema = z.strictObject({
  version: z.literal(1).optional().describe('The version of this format.'),
  mode: z
    .enum(['allowlist', 'denylist', 'open'])
    .optional()
    .describe('What happens to targets that no rule speaks about. Default: allowlist (denied).'),
  preset: z.string().optional().describe('One preset; the same as a list of one in `presets`.'),
  presets: names.optional().describe('Presets by name or path; their rules come first.'),
  ports: z
    .array(portItem)
    .optional()
    .describe('Ports of an allow rule that names none. Default: 80 and 443.'),
  rules: z.array(rule).optional().describe('In order; the last rule that matches wins.'),
  quiet: names.optional().describe('Patterns that are denied without an event each time.'),
  tls: z
    .strictObject({
      sni: z.enum(['off', 'report', 'enforce']).optional().describe('Default: enforce.'),
      require: z.boolean().optional().describe('Default: false.'),
    })
    .optional(),
  limits: limits.optional(),
  door: z
    .strictObject({
      syntheticRange: z
        .string()
        .optional()
        .describe('Addresses that stand for names inside a sandbox. Default: 127.64.0.0/10.'),
    })
    .optional()
    .describe('How programs in a sandbox that know of no proxy see what is allowed.'),
  tests: tests.optional(),
})

/** The shape of a preset file. */
export const presetSchema = z.strictObject({
  name: z
    .string()
    .regex(/^[a-z\d]+(?:-[a-z\d]+)*$/, 'lower case letters, digits and single hyphens'),
  description: z.string().min(1),
  extends: names.optional(),
  verified: z.string().optional(),
  rules: z.array(z.union([z.string(), presetRuleObject])).optional(),
  tests: tests.optional(),
})

export type PolicyShape = z.infer<typeof policySchema>
export type PresetShape = z.infer<typeof presetSchema>

const BASE = 'https://github.com/SocialGouv/iterion-egress/schema/'

/** JSON Schema (draft 2020-12) of a policy file, for editors. */
export function policyJsonSchema(): Record<string, unknown> {
  return {
    ...z.toJSONSchema(policySchema),
    $id: `${BASE}policy.json`,
    title: 'iterion-egress policy',
  }
}

/** JSON Schema (draft 2020-12) of a preset file, for editors. */
export function presetJsonSchema(): Record<string, unknown> {
  return {
    ...z.toJSONSchema(presetSchema),
    $id: `${BASE}preset.json`,
    title: 'iterion-egress preset',
  }
}
