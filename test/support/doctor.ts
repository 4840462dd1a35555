import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Check } from '../../src/sandbox/doctor-check.ts'
import type { Desk } from './sandbox-run.ts'

/** Writes a workflow of one node that does nothing. Answers its path. */
export function sandboxWorkflow(desk: Desk, sandbox: object, more: object = {}): string {
  const file = path.join(desk.workspace, 'w.yaml')
  const nodes = [{ id: 'a', command: 'true' }]
  writeFileSync(file, JSON.stringify({ name: 'w', sandbox, nodes, ...more }))
  return file
}

/** What doctor says. */
export interface Report {
  readonly code: number | null
  readonly checks: readonly Check[]
  /** `status name`, of all that did not pass. */
  readonly short: readonly string[]
}

/** Runs doctor, and holds its exit code to its report. */
export async function doctor(
  desk: Desk,
  words: readonly string[],
  env: Record<string, string> = {},
): Promise<Report> {
  const { code, stdout } = await desk.run(['doctor', '--json', ...words], { env })
  const { ok, checks } = JSON.parse(stdout) as { ok: boolean; checks: Check[] }
  if (ok !== (code === 0)) throw new Error(`ok is ${ok}, and the exit code ${code}`)
  const odd = checks.filter(({ status }) => status !== 'pass')
  return { code, checks, short: odd.map(({ status, name }) => `${status} ${name}`) }
}

/** One check of a report. */
export const find = ({ checks }: Report, name: string) => checks.find((one) => one.name === name)

/** A program in a folder of its own that is called docker. */
export function programDocker(desk: Desk, script: string): string {
  const folder = path.join(desk.folder, 'engine')
  mkdirSync(folder, { recursive: true })
  writeFileSync(path.join(folder, 'docker'), `#!/bin/sh\n${script}\n`)
  chmodSync(path.join(folder, 'docker'), 0o755)
  return folder
}
