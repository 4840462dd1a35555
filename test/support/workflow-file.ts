import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { TEST_IMAGE } from './docker.ts'
import type { Desk } from './sandbox-run.ts'

/** Writes a workflow of one node that does nothing, and more. Answers its path. */
export function workflow(desk: Desk, value: object): string {
  const file = path.join(desk.workspace, 'w.yaml')
  writeFileSync(
    file,
    JSON.stringify({ name: 'w', nodes: [{ id: 'a', command: 'true' }], ...value }),
  )
  return file
}

/** Makes the workspace a repository whose devcontainer.json says more than an image. */
export function devcontainer(desk: Desk, says: object): void {
  execFileSync('git', ['init', '--quiet', desk.workspace])
  const text = JSON.stringify({ image: TEST_IMAGE, ...says })
  writeFileSync(path.join(desk.workspace, '.devcontainer.json'), text)
}
