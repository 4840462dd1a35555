import { type Command, Option } from 'commander'
import type { Mode } from '../policy/policy.ts'

/** The options that say which policy a command is about. */
export interface PolicyOptions {
  readonly policy?: string
  readonly preset: readonly string[]
  readonly presetDir: readonly string[]
  readonly mode?: Mode
  readonly rule: readonly string[]
}

/** Collects an option that may be given several times. */
export function collect(value: string, previous: readonly string[]): string[] {
  return [...previous, value]
}

/** Adds the options that say which policy a command is about. */
export function addPolicyOptions(command: Command): Command {
  return command
    .option('--policy <file>', 'the policy file')
    .option('--preset <name>', 'a preset, before the file (repeatable)', collect, [])
    .option('--preset-dir <dir>', 'a folder with more presets (repeatable)', collect, [])
    .addOption(
      new Option('--mode <mode>', 'overrides the mode of the file').choices([
        'allowlist',
        'denylist',
        'open',
      ]),
    )
    .option('--rule <rule>', 'a rule, after everything else (repeatable)', collect, [])
}

/** How every command that takes them tells of these options. */
export const RESOLVE_HELP = 'HOST[:PORT]:ADDRESS[:PORT], answers a name without DNS (repeatable)'
export const JSON_HELP = 'print JSON for programs'
