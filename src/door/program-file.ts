import path from 'node:path'

/**
 * Where a program of this folder is that runs in a process of its own. Plain Node.js cannot run TypeScript, so from a tree
 * of sources it is the built one.
 */
export function programFile(name: string): string {
  const folder = import.meta.filename.endsWith('.ts') ? '../../dist/door' : '.'
  return path.resolve(import.meta.dirname, folder, `${name}.js`)
}
