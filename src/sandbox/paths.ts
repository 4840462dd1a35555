import { lstatSync, realpathSync } from 'node:fs'
import { posix } from 'node:path'

/** Whether a path is a folder or lies inside it. Both are absolute and normal. */
export function isWithin(folder: string, path: string): boolean {
  return path === folder || path.startsWith(folder === '/' ? '/' : `${folder}/`)
}

/** An absolute path with one spelling: no doubled slash, no `.` or `..`, no slash at the end. */
export function normalPath(path: string): string {
  const normal = posix.normalize(path).replace(/^\/\//, '/')
  return normal.length > 1 ? normal.replace(/\/$/, '') : normal
}

/** What is at an absolute path after every link; undefined if there is nothing. A relative path is nowhere. */
export function realStat(
  path: string,
): { readonly real: string; readonly isFolder: boolean; readonly isFile: boolean } | undefined {
  if (!path.startsWith('/')) return undefined
  try {
    const real = realpathSync.native(path)
    const stat = lstatSync(real)
    return { real, isFolder: stat.isDirectory(), isFile: stat.isFile() }
  } catch {
    return undefined
  }
}

/** The real path of something that may not exist yet: that of the nearest folder that does, and the rest. */
export function realOf(path: string): string {
  const parts = normalPath(path).split('/')
  for (let length = parts.length; length > 1; length -= 1) {
    const stat = realStat(parts.slice(0, length).join('/'))
    if (stat) return posix.join(stat.real, ...parts.slice(length))
  }
  return normalPath(path)
}
