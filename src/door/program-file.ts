import path from 'node:path'

/**
 * Where a program is that runs in a process of its own. Plain Node.js cannot run TypeScript, so from a tree of sources it
 * is the built one too.
 */
export function programFile(name: string): string {
  const folder = import.meta.filename.endsWith('.ts') ? '../../dist/program' : '../program'
  return path.resolve(import.meta.dirname, folder, `${name}.cjs`)
}
