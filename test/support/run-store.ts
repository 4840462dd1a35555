import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Test } from 'tap'
import type { RunRecord } from '../../src/sandbox/run-record.ts'
import type { createRun } from '../../src/sandbox/run-store.ts'

/** A process that is gone. */
export const OWNER = { bootId: 'b', pidNamespace: 'pid:[4]', pid: 2 ** 30, startTime: '1' }

/** A command line that says nothing beside the workflow. */
export const NO_FLAGS: RunRecord['flags'] = {
  sandbox: null,
  default_image: null,
  host_state: null,
  door: 'auto',
  sidecar_image: null,
  resolve: [],
  env: [],
}

/** A run that was just started. */
export const FIRST: Parameters<typeof createRun>[1] = {
  name: 'demo',
  status: 'running',
  failure_code: null,
  error: null,
  retry_class: null,
  workspace: '/w',
  scratch: null,
  container: null,
  source: { file: '/w/w.yaml', image: null, policy: null, command: null, preset_dirs: [] },
  flags: NO_FLAGS,
  spec_digest: 'd',
  policy_digest: null,
  checkpoint: { done: [], next: 'a' },
  exit_code: null,
}

/** A store in a folder of its own. */
export function store(t: Test, now = Date.UTC(2026, 0, 2, 3, 4, 5, 678)) {
  const folder = mkdtempSync(path.join(tmpdir(), 'runs-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  return { iterionHome: `${folder}/home`, now: () => now, identity: OWNER }
}
