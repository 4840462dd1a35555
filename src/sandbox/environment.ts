import { proxyVariables } from './env-file.ts'
import type { Layout } from './layout.ts'
import type { SandboxRequest } from './sandbox.ts'

/** Variables of a run's commands, by who says them. */
export interface EnvironmentLayer {
  readonly from: 'home' | 'repository' | 'workflow' | 'secret' | 'operator' | 'proxy'
  readonly env: Readonly<Record<string, string>>
}

/** What is left of layers: the last one that says a variable wins. */
export function mergeLayers(layers: readonly EnvironmentLayer[]): Record<string, string> {
  return Object.fromEntries(layers.flatMap(({ env }) => Object.entries(env)))
}

/** The variables of a run's commands, over those of the image: the last layer wins, and nobody overrides the proxy's. */
export function environmentLayers(
  { block, secrets, operatorEnv }: Pick<SandboxRequest, 'block' | 'secrets' | 'operatorEnv'>,
  { home }: Pick<Layout, 'home'>,
  repositoryEnv: Readonly<Record<string, string>>,
  proxyUrl: string | undefined,
): readonly EnvironmentLayer[] {
  return [
    { from: 'home', env: home === undefined ? {} : { HOME: home } },
    { from: 'repository', env: repositoryEnv },
    { from: 'workflow', env: block?.env ?? {} },
    { from: 'secret', env: secrets.env },
    { from: 'operator', env: operatorEnv },
    { from: 'proxy', env: proxyUrl === undefined ? {} : proxyVariables(proxyUrl) },
  ]
}
