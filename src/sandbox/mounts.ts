import { EgressError } from '../errors.ts'

/** A folder or file of the host that is bound into a sandbox. Both paths are absolute. */
export interface BindMount {
  readonly source: string
  readonly target: string
  readonly readOnly: boolean
}

/**
 * The value of `--mount` for a bind. The engine reads it as a line of CSV with `name=value` fields: a field with a
 * comma or a quote is quoted, and a quote in it doubled. Controls have no spelling there that every engine reads alike.
 *
 * @throws {EgressError} SANDBOX_SPEC_UNSAFE if a path has a control character
 */
export function mountArg({ source, target, readOnly }: BindMount): string {
  for (const path of [source, target]) {
    if (!/\p{Cc}/u.test(path)) continue
    throw new EgressError(
      'SANDBOX_SPEC_UNSAFE',
      `${JSON.stringify(path)} cannot be mounted: its name has a control character`,
    )
  }
  return ['type=bind', `source=${source}`, `target=${target}`, ...(readOnly ? ['readonly'] : [])]
    .map(csvField)
    .join(',')
}

/** A field of the line of CSV that `--mount` reads. */
export function csvField(field: string): string {
  return /[",\s]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field
}

/**
 * All binds of a sandbox in the order in which they are laid over one another: parents before children. What is asked
 * for twice is bound once, read-only if either says so.
 *
 * @throws {EgressError} SANDBOX_SPEC_UNSAFE if two sources want one target
 */
export function mergeMounts(...lists: readonly (readonly BindMount[])[]): readonly BindMount[] {
  const byTarget = new Map<string, BindMount>()
  for (const mount of lists.flat()) {
    const before = byTarget.get(mount.target)
    if (before && before.source !== mount.source) {
      throw new EgressError(
        'SANDBOX_SPEC_UNSAFE',
        `${mount.target} would be both ${before.source} and ${mount.source}`,
      )
    }
    const readOnly = mount.readOnly || before?.readOnly === true
    byTarget.set(mount.target, { ...mount, readOnly })
  }
  return [...byTarget.values()].toSorted((a, b) => depthOf(a.target) - depthOf(b.target))
}

function depthOf(path: string): number {
  return path.split('/').length
}
