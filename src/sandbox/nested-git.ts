import { join } from 'node:path'
import { foldersBelow, type RawPath } from './raw-path.ts'

/** What git takes for a repository below a folder. */
export interface NestedGit {
  /** Whatever is called `.git`, but that of the folder itself. */
  readonly gits: readonly RawPath[]
  /** Folders that look like a bare repository. */
  readonly bares: readonly RawPath[]
}

/** Looks for repositories below a folder. Links are not followed, nor is what is inside a `.git` looked at. */
export function nestedGit(folder: RawPath): NestedGit {
  const gits: RawPath[] = []
  const bares: RawPath[] = []
  for (const { path, entries } of foldersBelow(folder, (below) => !isGit(below))) {
    const names = new Set(entries.map(({ name }) => name))
    const isBare = ['HEAD', 'objects', 'refs'].every((name) => names.has(name))
    // What was put aside is no place that anybody works in.
    if (isBare && !/\/\.git\.sandboxed-[^/]*$/i.test(path)) bares.push(path)
    if (path === folder) continue
    gits.push(...[...names].filter(isGit).map((name) => join(path, name)))
  }
  return { gits: gits.toSorted(), bares: bares.toSorted() }
}

/** Some file systems do not tell case apart, and git takes any. */
function isGit(path: string): boolean {
  return /(?:^|\/)\.git$/i.test(path)
}
