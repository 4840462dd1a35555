import type { ImageInfo } from './driver.ts'
import { type EnvironmentLayer, environmentLayers } from './environment.ts'
import type { Layout } from './layout.ts'
import type { RepositoryEnvironment } from './repository-env.ts'
import type { SandboxRequest } from './sandbox.ts'
import { DOOR_URL, isSealed } from './sandbox-network.ts'
import { SECRETS_TARGET } from './secrets.ts'

/** The proxy of a run that is advisory, which has another port each time. */
const SOME_PROXY = '<proxy>'

/** A variable of the commands of a run. */
export interface PlannedVariable {
  readonly name: string
  /** Undefined: it is hidden. */
  readonly value: string | undefined
  readonly from: EnvironmentLayer['from'] | 'image'
}

/** The variables that a run would give its commands, by who says them. */
export function plannedLayers(
  request: SandboxRequest,
  layout: Layout,
  repositoryEnv: RepositoryEnvironment | undefined,
): readonly EnvironmentLayer[] {
  const proxy = isSealed(request) ? DOOR_URL : request.hasPolicy ? SOME_PROXY : undefined
  return environmentLayers(request, layout, repositoryEnv?.env ?? {}, proxy)
}

/** The same with those of the image, as they may be shown. */
export function plannedEnvironment(
  request: SandboxRequest,
  own: readonly EnvironmentLayer[],
  image: ImageInfo,
  repositoryEnv: RepositoryEnvironment | undefined,
): PlannedVariable[] {
  const unset = new Set(repositoryEnv?.unset)
  const kept = Object.entries(image.env).filter(([name]) => !unset.has(name))
  const layers: readonly {
    from: PlannedVariable['from']
    env: Readonly<Record<string, string>>
  }[] = [{ from: 'image', env: Object.fromEntries(kept) }, ...own]
  // That there is a file is no secret.
  const files = new Set(
    request.secrets.files.map(({ name }) => `${name}_FILE=${SECRETS_TARGET}/${name}`),
  )
  // A repository can ask for what the operator gives, under a name of its own.
  const secret = [...Object.values(request.operatorEnv), ...secretValues(request)].filter(
    (value) => value.length >= LEAST_SECRET,
  )
  const byName = new Map<string, PlannedVariable>()
  for (const { from, env } of layers) {
    for (const [name, value] of Object.entries(env)) {
      const isPath = files.has(`${name}=${value}`)
      const holdsSecret = from !== 'proxy' && !isPath && secret.some((one) => value.includes(one))
      const hidden = holdsSecret || (from === 'secret' ? !isPath : isHidden(name, from))
      byName.set(name, { name, value: hidden ? undefined : value, from })
    }
  }
  return [...byName.values()]
}

/** What the operator gives, and what is named like a secret. The proxy's variables are our own. */
function isHidden(name: string, from: PlannedVariable['from']): boolean {
  return from === 'operator' || (from !== 'proxy' && SECRET_NAME.test(name))
}

const SECRET_NAME = /key|token|secret|pass|pwd|credential|cookie|dsn|auth|(?:^|_)pat(?:_|$)/i

/** Shorter values are in others by chance. */
const LEAST_SECRET = 4

function secretValues({ secrets }: SandboxRequest): string[] {
  const files = new Set(secrets.files.map(({ name }) => `${name}_FILE`))
  return Object.entries(secrets.env)
    .filter(([name]) => !files.has(name))
    .map(([, value]) => value)
}
