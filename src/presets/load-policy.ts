import { type PolicySource, parsePolicy } from '../policy/parse.ts'
import { type Catalog, createCatalog } from './catalog.ts'
import { composePolicy, type ComposedPolicy, type PolicyRecipe } from './compose.ts'
import { readSource } from './read-source.ts'

interface LoadOptions extends Omit<PolicyRecipe, 'source'> {
  /** Where presets are looked up. Default: the built-in ones. */
  readonly catalog?: Catalog
}

/**
 * Reads a policy file, joins it with its presets and compiles it.
 *
 * @throws {EgressError} FILE_UNREADABLE, or all problems of the file at once
 */
export function loadPolicy(file: string, options: LoadOptions = {}): ComposedPolicy {
  const { catalog = createCatalog(), ...recipe } = options
  return composePolicy({ ...recipe, source: readPolicy(file, catalog) }, catalog)
}

/** Reads a policy file without its presets. Throws as {@link loadPolicy} does. */
export function readPolicy(file: string, catalog: Catalog): PolicySource {
  return parsePolicy(readSource(file), file, { checkPreset: (name) => catalog.check(name) })
}
