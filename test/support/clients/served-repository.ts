import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Test } from 'tap'
import { PROGRAM_PATH } from './program.ts'
import { runClient } from './run-client.ts'

/** Variables with which git asks nobody, and knows who commits. */
export const GIT_IDENTITY = {
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_TERMINAL_PROMPT: '0',
  GIT_AUTHOR_NAME: 'tester',
  GIT_AUTHOR_EMAIL: 'tester@allowed.test',
  GIT_COMMITTER_NAME: 'tester',
  GIT_COMMITTER_EMAIL: 'tester@allowed.test',
}

/** A folder with `project.git`, which has one commit and may be pushed to. */
export async function makeServedRepository(t: Test): Promise<{ root: string; commit: string }> {
  const root = mkdtempSync(join(tmpdir(), 'egress-git-'))
  t.teardown(() => rmSync(root, { recursive: true, force: true }))
  const work = join(root, 'work')
  mkdirSync(work)
  const env = { PATH: PROGRAM_PATH, HOME: root, ...GIT_IDENTITY }
  const git = async (...args: string[]) => {
    const ran = await runClient('git', args, { env, cwd: work })
    if (ran.code !== 0) throw new Error(ran.output)
    return ran.stdout.trim()
  }
  await git('init', '-q', '-b', 'main')
  writeFileSync(join(work, 'readme.txt'), 'cloned through the proxy\n')
  await git('add', '.')
  await git('commit', '-q', '-m', 'first')
  await git('clone', '-q', '--bare', work, join(root, 'project.git'))
  await git('-C', join(root, 'project.git'), 'config', 'http.receivepack', 'true')
  return { root, commit: await git('rev-parse', 'HEAD') }
}
