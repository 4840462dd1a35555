import path from 'node:path'
import { EgressError, type Problem, problemsError, type SourcePlace } from '../errors.ts'
import { compilePolicy, type PolicyParts } from '../policy/compile.ts'
import type { PolicySource, PresetReference, PresetSource } from '../policy/parse.ts'
import type { PolicyTest } from '../policy/parse-parts.ts'
import type { Mode, Policy } from '../policy/policy.ts'
import type { Rule } from '../policy/rule.ts'
import type { Catalog } from './catalog.ts'
import { confineCatalog } from './confine.ts'

/** What a policy is made of. */
export interface PolicyRecipe {
  /** A policy file, if there is one. */
  readonly source?: PolicySource
  /** Presets named beside the file; their rules come before everything in it. */
  readonly presets?: readonly string[]
  /** Overrides the mode of the file. Default without a file: allowlist. */
  readonly mode?: Mode
  /** Rules that come after everything else. */
  readonly rules?: readonly Rule[]
}

/** A policy with what its sources assert about it. */
export interface ComposedPolicy {
  readonly policy: Policy
  /** What it was compiled from. */
  readonly parts: PolicyParts
  readonly tests: readonly PolicyTest[]
}

/**
 * Joins file, presets and single rules in their order and compiles them.
 *
 * @throws {EgressError} with all problems that can be found at once, PRESET_UNKNOWN and PRESET_CYCLE among them
 */
export function composePolicy(recipe: PolicyRecipe, catalog: Catalog): ComposedPolicy {
  try {
    return join(recipe, catalog)
  } catch (error) {
    if (!(error instanceof EgressError) || recipe.source === undefined) throw error
    throw withSourceLines(error, recipe.source)
  }
}

function join(recipe: PolicyRecipe, catalog: Catalog): ComposedPolicy {
  const { source, presets = [], rules = [] } = recipe
  const mode = recipe.mode ?? source?.mode ?? 'allowlist'
  const problems: Problem[] = []
  const chain = createChain(
    source?.isEmbedded ? confineCatalog(catalog, path.dirname(source.file)) : catalog,
    problems,
  )
  for (const name of presets) chain.add({ name, at: undefined })
  for (const reference of source?.presets ?? []) chain.add(reference)
  if (mode === 'denylist') problems.push(...idlePresets(recipe))
  if (problems.length > 0) throw problemsError(problems)
  const all = [...chain.loaded.flatMap((preset) => preset.rules), ...(source?.rules ?? []), ...rules]
  const parts: PolicyParts = {
    mode,
    rules: all,
    ...(source && {
      quiet: source.quiet,
      tls: source.tls,
      limits: source.limits,
      door: source.door,
    }),
  }
  return { policy: compilePolicy(parts), parts, tests: source?.tests ?? [] }
}

function withSourceLines(error: EgressError, { file, lineAt }: PolicySource): EgressError {
  if (error.problems.length === 0) return error
  return problemsError(
    error.problems.map((problem) =>
      problem.at?.file === file && problem.sourceLine === undefined
        ? { ...problem, sourceLine: lineAt(problem.at.line) }
        : problem,
    ),
  )
}

/** The presets of one name and all that it extends, each once, what is extended first. */
export function expandPreset(name: string, catalog: Catalog, at?: SourcePlace): readonly PresetSource[] {
  const problems: Problem[] = []
  const chain = createChain(catalog, problems)
  chain.add({ name, at })
  if (problems.length > 0) throw problemsError(problems)
  return chain.loaded
}

type Reference = Pick<PresetReference, 'name'> & { readonly at: PresetReference['at'] | undefined }

/** Collects presets depth first. A preset that comes twice keeps its first place. */
function createChain(catalog: Catalog, problems: Problem[]) {
  const loaded: PresetSource[] = []
  const visit = (reference: Reference, above: readonly string[]) => {
    const preset = loadInto(problems, () => catalog.get(reference.name, reference.at))
    if (preset === undefined || loaded.includes(preset)) return
    const way = [...above, preset.name]
    if (above.includes(preset.name)) {
      const ring = way.slice(above.indexOf(preset.name)).join(' -> ')
      problems.push({
        code: 'PRESET_CYCLE',
        message: `presets extend each other in a ring: ${ring}`,
        ...(reference.at && { at: reference.at }),
      })
      return
    }
    for (const parent of preset.extends) visit(parent, way)
    if (!loaded.includes(preset)) loaded.push(preset)
  }
  return { loaded, add: (reference: Reference) => visit(reference, []) }
}

function loadInto<T>(problems: Problem[], load: () => T): T | undefined {
  try {
    return load()
  } catch (error) {
    if (!(error instanceof EgressError)) throw error
    for (const problem of error.problems) problems.push(problem)
    if (error.problems.length > 0) return undefined
    problems.push({ code: error.code, message: error.message, ...(error.at && { at: error.at }) })
    return undefined
  }
}

/** In denylist mode presets, which only allow, do nothing. */
function idlePresets(recipe: PolicyRecipe): Problem[] {
  const named: Reference[] = [
    ...(recipe.presets ?? []).map((name) => ({ name, at: undefined })),
    ...(recipe.source?.presets ?? []),
  ]
  return named
    .filter(({ name }) => name !== 'none')
    .map(({ name, at }) => ({
      code: 'POLICY_RULE' as const,
      message: `the preset ${name} allows what denylist mode allows anyway; use it with mode allowlist`,
      ...(at && { at }),
    }))
}
