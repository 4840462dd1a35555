import type { PresetSource } from '../policy/parse.ts'
import { formatPorts } from '../policy/ports.ts'
import type { Rule } from '../policy/rule.ts'
import { expandPreset } from '../presets/compose.ts'
import { EXIT, type ExitCode } from './exit-codes.ts'
import type { Io } from './io.ts'
import { catalogOf } from './policy-options.ts'
import { renderJson, renderTable } from './render.ts'

interface PresetsOptions {
  readonly presetDir: readonly string[]
  readonly json?: boolean
}

/** `presets list`: what there is, with the number of rules that each brings. */
export function runPresetsList(io: Io, options: PresetsOptions): ExitCode {
  const catalog = catalogOf(options)
  const presets = catalog.names.map((name) => {
    const parts = expandPreset(name, catalog)
    const { description, verified } = catalog.get(name)
    const rules = parts.reduce((sum, part) => sum + part.rules.length, 0)
    return { name, rules, verified: verified ?? null, description }
  })
  if (options.json) io.stdout(renderJson(presets))
  else {
    const rows = presets.map(({ name, rules, description }) => [
      name,
      rules === 1 ? '1 rule' : `${rules} rules`,
      firstSentence(description),
    ])
    io.stdout(renderTable(rows))
  }
  return EXIT.yes
}

/** `presets show`: every rule of a preset and of what it extends, with why it is there. */
export function runPresetsShow(io: Io, name: string, options: PresetsOptions): ExitCode {
  const catalog = catalogOf(options)
  const parts = expandPreset(name, catalog)
  const preset = parts.at(-1)
  if (options.json) {
    const rules = parts.flatMap((part) =>
      part.rules.map((rule, i) => ({ preset: part.name, ...toJson(part, rule, i) })),
    )
    io.stdout(
      renderJson({
        name: preset?.name ?? name,
        description: preset?.description ?? '',
        verified: preset?.verified ?? null,
        extends: preset?.extends.map((one) => one.name) ?? [],
        rules,
      }),
    )
    return EXIT.yes
  }
  io.stdout(`${preset?.name ?? name}: ${preset?.description.trim() ?? ''}\n`)
  for (const part of parts) {
    if (part.rules.length === 0) continue
    io.stdout(`\n# ${part.name}\n`)
    io.stdout(renderTable(part.rules.map((rule, i) => toRow(part, rule, i))))
  }
  return EXIT.yes
}

function toJson(part: PresetSource, rule: Rule, index: number) {
  const entry = part.entries[index]
  return {
    host: rule.text,
    ports: formatPorts(rule.ports),
    note: entry?.note ?? null,
    source: entry?.source ?? null,
    verified: entry?.verified ?? null,
    exfiltration: entry?.exfiltration ?? null,
  }
}

function toRow(part: PresetSource, rule: Rule, index: number): string[] {
  const entry = part.entries[index]
  return [rule.text, formatPorts(rule.ports), entry?.exfiltration ?? '', entry?.note ?? '']
}

function firstSentence(text: string): string {
  return /^.*?[.](?=\s|$)/s.exec(text.trim())?.[0].replace(/\s+/g, ' ') ?? text.trim()
}
