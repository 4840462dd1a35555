import { EgressError } from '../errors.ts'
import type { NodeSpec } from './spec.ts'

/** What may run the command of a node. */
export const BACKENDS = ['tool', 'claude_code', 'pi', 'kimi', 'grok', 'claw', 'codex'] as const

/** One of {@link BACKENDS}. */
export type Backend = (typeof BACKENDS)[number]

/** Programs of agents that take a task as an argument, and what stands before it. None of them asks back then. */
const AGENTS: Readonly<Record<Exclude<Backend, 'tool' | 'claw'>, readonly string[]>> = {
  claude_code: ['claude', '-p'],
  pi: ['pi', '-p'],
  kimi: ['kimi', '-p'],
  grok: ['grok', '-p'],
  codex: ['codex', 'exec'],
}

/** Backends that cannot be in a sandbox of ours, with the reason. */
const UNSANDBOXED: Partial<Record<Backend, string>> = {
  codex: 'codex brings a sandbox of its own, which does not start inside another one',
}

/** True if a backend is given a task in words, and not a command. */
export function takesTask(backend: string): boolean {
  return backend !== 'tool'
}

/** A program to start for a node. */
export interface NodeProgram {
  readonly words: readonly string[]
  /** What it reads, and nothing after it; undefined: what the caller gives it. */
  readonly input?: string
}

/** Where a node runs. */
interface NodeSite {
  /** The `iterion` that runs claw: a name on PATH, or a path. */
  readonly iterion: string
  /** The folder that the node starts in. */
  readonly workdir: string
}

/**
 * The program of a node. A list is its words, whatever the backend. A text is a line for the shell (`tool`), or the task of
 * an agent: an argument of its program, and for `claw` the first record that its runner reads.
 */
export function nodeProgram(
  { id, backend, command }: Pick<NodeSpec, 'id' | 'backend' | 'command'>,
  { iterion, workdir }: NodeSite,
): NodeProgram {
  if (typeof command !== 'string') return { words: command }
  if (backend === 'claw') {
    const data = { node_id: id, user_prompt: command, work_dir: workdir }
    const record = `${JSON.stringify({ type: 'task', data })}\n`
    return { words: [iterion, '__claw-runner'], input: record }
  }
  return { words: backend === 'tool' ? ['/bin/sh', '-c', command] : [...AGENTS[backend], command] }
}

/** A fallback that a run will not use. */
export interface DroppedFallback {
  readonly node: string
  readonly backend: Backend
  readonly reason: string
}

/** The nodes of a run, and what was taken from them. */
export interface ScreenedNodes {
  readonly nodes: readonly NodeSpec[]
  readonly dropped: readonly DroppedFallback[]
}

/** Takes from nodes the fallbacks that could not start where the run will be. */
export function screenFallbacks(nodes: readonly NodeSpec[], isSandboxed: boolean): ScreenedNodes {
  if (!isSandboxed) return { nodes, dropped: [] }
  const dropped: DroppedFallback[] = []
  const screened = nodes.map((node) => ({
    ...node,
    fallback: node.fallback.filter((backend) => {
      const reason = UNSANDBOXED[backend]
      if (reason !== undefined) dropped.push({ node: node.id, backend, reason })
      return reason === undefined
    }),
  }))
  return { nodes: screened, dropped }
}

/**
 * Refuses nodes whose backend cannot be in a sandbox.
 *
 * @throws {EgressError} BACKEND_UNSUPPORTED
 */
export function assertSandboxable(nodes: readonly NodeSpec[]): void {
  for (const { id, backend } of nodes) {
    const reason = UNSANDBOXED[backend]
    if (reason === undefined) continue
    throw new EgressError(
      'BACKEND_UNSUPPORTED',
      `the backend of node ${id} cannot run in a sandbox: ${reason}; take another backend, or --sandbox none and read what that means`,
    )
  }
}

/** True if a node may come to run by claw. */
export function usesClaw(nodes: readonly NodeSpec[]): boolean {
  return nodes.some(
    ({ backend, command, fallback }) =>
      typeof command === 'string' && [backend, ...fallback].includes('claw'),
  )
}
