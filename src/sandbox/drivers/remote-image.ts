import { type ContainerRuntime, runtimeCommand } from '../../door/container-runtime.ts'

/** What a registry says about an image. */
export type RemoteImage =
  | { readonly kind: 'there' }
  | { readonly kind: 'absent' }
  /** It did not answer, or not to this caller. */
  | { readonly kind: 'unknown'; readonly why: string }

/** Also what a registry says to who may not see the image. */
const ABSENT = /no such manifest|manifest.unknown|name.unknown/i
/** Registries that docker talks to without TLS. */
const LOOPBACK = /^(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d+)?\//

/** Asks the registry of an image whether it has it. Nothing is fetched. */
export async function findRemoteImage(
  runtime: ContainerRuntime,
  image: string,
  { timeoutMs, signal }: { readonly timeoutMs: number; readonly signal: AbortSignal },
): Promise<RemoteImage> {
  const isOpen = runtime.name === 'docker' && LOOPBACK.test(image)
  const args = ['manifest', 'inspect', ...(isOpen ? ['--insecure'] : []), image]
  const { code, stderr, stopped } = await runtimeCommand(runtime, args, { timeoutMs, signal })
  if (code === 0) return { kind: 'there' }
  if (stopped) return { kind: 'unknown', why: `no answer in ${timeoutMs / 1000} s` }
  if (ABSENT.test(stderr)) return { kind: 'absent' }
  return { kind: 'unknown', why: stderr.trim().split('\n').at(-1)?.slice(0, 300) ?? '' }
}
