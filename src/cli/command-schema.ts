import { eventJsonSchema } from '../events/event.ts'
import { policyJsonSchema, presetJsonSchema } from '../policy/schema.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'
import type { Io } from './io.ts'

const SCHEMAS = { policy: policyJsonSchema, preset: presetJsonSchema, events: eventJsonSchema }

/** `schema`: prints a JSON Schema. */
export function runSchema(io: Io, name: keyof typeof SCHEMAS): ExitCode {
  io.stdout(`${JSON.stringify(SCHEMAS[name](), null, 2)}\n`)
  return EXIT.yes
}
