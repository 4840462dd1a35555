import path from 'node:path'

/** What the variables of a devcontainer.json stand for. */
export interface VariableValues {
  /** The caller's environment. Of it only what is listed below is read, and what the operator names. */
  readonly env: Readonly<Partial<Record<string, string>>>
  /** What the operator gives this run. */
  readonly operatorEnv: Readonly<Record<string, string>>
  /** The workspace outside and inside. */
  readonly localWorkspaceFolder: string
  readonly containerWorkspaceFolder: string
  readonly devcontainerId: string
  /** What the container has before a run adds anything; undefined: not known here, and then it does not expand. */
  readonly containerEnv?: Readonly<Record<string, string>>
}

/** A text whose variables are filled in. */
export interface Expanded {
  readonly text: string
  /** Variables of the host that were asked for and are not given: their default is taken, or nothing. */
  readonly withheld: readonly string[]
}

/** Variables of the host that tell nothing that a sandbox may not know. */
const OPEN_NAMES = /^(?:USER|TERM|LANG|LC_\w+|TZ)$/

/**
 * Fills in the variables of a text, once: what comes in by a variable is not looked at again, and no shell of the host
 * sees it. A default goes up to the closing brace, colons and all; it has no braces itself. What nobody knows stays as it
 * is written.
 */
export function expandVariables(text: string, values: VariableValues): Expanded {
  const withheld: string[] = []
  const expanded = text.replaceAll(/\$\{([^{}]*)\}/g, (whole, inner: string) => {
    const colon = inner.indexOf(':')
    const kind = colon === -1 ? inner : inner.slice(0, colon)
    const rest = colon === -1 ? undefined : inner.slice(colon + 1)
    return valueOf(kind, rest, values, withheld) ?? whole
  })
  return { text: expanded, withheld }
}

function valueOf(
  kind: string,
  rest: string | undefined,
  values: VariableValues,
  withheld: string[],
): string | undefined {
  const { localWorkspaceFolder, containerWorkspaceFolder, devcontainerId, containerEnv } = values
  if (rest === undefined) {
    switch (kind) {
      case 'localWorkspaceFolder':
        return localWorkspaceFolder
      case 'localWorkspaceFolderBasename':
        return path.posix.basename(localWorkspaceFolder)
      case 'containerWorkspaceFolder':
        return containerWorkspaceFolder
      case 'containerWorkspaceFolderBasename':
        return path.posix.basename(containerWorkspaceFolder)
      case 'devcontainerId':
        return devcontainerId
      default:
        return undefined
    }
  }
  const colon = rest.indexOf(':')
  const name = colon === -1 ? rest : rest.slice(0, colon)
  const fallback = colon === -1 ? '' : rest.slice(colon + 1)
  if (kind === 'containerEnv') {
    return containerEnv && (Object.hasOwn(containerEnv, name) ? containerEnv[name] : fallback)
  }
  if (kind !== 'localEnv') return undefined
  const { value, isGiven } = localValue(name, values)
  if (!isGiven) withheld.push(name)
  return value ?? fallback
}

function localValue(
  name: string,
  { env, operatorEnv }: VariableValues,
): { readonly value: string | undefined; readonly isGiven: boolean } {
  if (Object.hasOwn(operatorEnv, name)) return { value: operatorEnv[name], isGiven: true }
  if (OPEN_NAMES.test(name)) return { value: env[name], isGiven: true }
  // Where the home is tells who the caller is, and where to look: only its last part is.
  if (name === 'HOME') {
    return { value: env['HOME'] && path.posix.basename(env['HOME']), isGiven: true }
  }
  // Whether one is set is not told either.
  return { value: undefined, isGiven: false }
}
