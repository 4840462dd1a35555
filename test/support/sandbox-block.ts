import { EMPTY_BLOCK, type SandboxBlock } from '../../src/sandbox/spec.ts'

/** A block that says what is given, and nothing else. */
export function blockOf(parts: Partial<SandboxBlock> = {}): SandboxBlock {
  return { ...EMPTY_BLOCK, ...parts }
}
