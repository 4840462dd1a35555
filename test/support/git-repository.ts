import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { devNull } from 'node:os'
import path from 'node:path'

/** Runs git in a folder as nobody in particular: no setting of this machine counts. */
export function git(folder: string, ...args: readonly string[]): string {
  const identity = { name: 'A', email: 'a@a.test' }
  return execFileSync('git', ['-C', folder, '-c', 'safe.directory=*', ...args], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env['PATH'],
      // A folder that is no repository any more is none: git must not find this project's own above it.
      GIT_CEILING_DIRECTORIES: path.resolve(import.meta.dirname, '../..'),
      HOME: '/nonexistent',
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_CONFIG_GLOBAL: devNull,
      GIT_AUTHOR_NAME: identity.name,
      GIT_AUTHOR_EMAIL: identity.email,
      GIT_COMMITTER_NAME: identity.name,
      GIT_COMMITTER_EMAIL: identity.email,
      GIT_ALLOW_PROTOCOL: 'file:ssh',
      GIT_EDITOR: 'true',
    },
  })
}

/** Makes a repository with one commit. */
export function makeRepository(folder: string): string {
  mkdirSync(folder, { recursive: true })
  git(folder, 'init', '-q', '-b', 'main')
  git(folder, 'commit', '-q', '--allow-empty', '-m', 'first')
  return folder
}
