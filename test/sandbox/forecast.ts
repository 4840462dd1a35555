import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { type ForecastInput, willBeSandboxed } from '../../src/sandbox/forecast.ts'
import { engineRepository, type RunSource } from '../../src/sandbox/run-plan.ts'
import { createRun } from '../../src/sandbox/run-store.ts'
import { bareHost } from '../support/bare-host.ts'
import { FIRST, NO_FLAGS } from '../support/run-store.ts'

const SOURCE: RunSource = {
  file: null,
  image: null,
  policy: null,
  command: ['true'],
  preset_dirs: [],
}

/** A machine with, or without, something that is called docker. Nothing of it is ever started. */
function machine(t: Test, hasRuntime: boolean, env: Record<string, string> = {}) {
  const bin = t.testdir({})
  if (hasRuntime) writeFileSync(path.join(bin, 'docker'), '#!/bin/sh\nexit 9\n', { mode: 0o755 })
  return bareHost(t, { env: { PATH: bin, ...env } })
}

function ask(more: Partial<Extract<ForecastInput, { source: unknown }>> = {}): ForecastInput {
  return {
    source: SOURCE,
    flags: NO_FLAGS,
    workspace: '/nowhere',
    operatorEnv: {},
    builtIn: 'auto',
    version: '1.0.0',
    ...more,
  }
}

void tap.test('it is the answer of the resolver: tiers, floor, runtime', async (t) => {
  const none = { ...NO_FLAGS, sandbox: 'none' as const }
  t.equal(await willBeSandboxed(machine(t, true), ask()), true)
  t.equal(await willBeSandboxed(machine(t, false), ask()), false)
  t.equal(await willBeSandboxed(machine(t, true), ask({ flags: none })), false)
  t.equal(await willBeSandboxed(machine(t, true), ask({ builtIn: undefined })), false, 'a library')
  const floor = machine(t, true, { ITERION_SANDBOX_FLOOR: 'auto' })
  t.equal(await willBeSandboxed(floor, ask({ flags: none })), true)
  const image = { ...SOURCE, image: 'x' }
  t.equal(await willBeSandboxed(machine(t, false), ask({ source: image })), false, 'refused')
  await t.rejects(willBeSandboxed(machine(t, true, { ITERION_SANDBOX_FLOOR: 'x' }), ask()), {
    code: 'OPTION_INVALID',
  })
})

void tap.test('the repository is the one that the run receives', async (t) => {
  const root = t.testdir({ repo: { sub: {} }, other: {} })
  const at = (name: string) => path.join(root, name)
  execFileSync('git', ['init', '--quiet', at('repo')])
  t.equal(engineRepository({}, at('repo/sub')), at('repo'), 'the one that holds the folder')
  t.equal(engineRepository({ repository: at('other') }, at('repo/sub')), at('other'))
  t.equal(engineRepository({ repository: null }, at('repo/sub')), null, 'that there is none')
  const loose = mkdtempSync(path.join(tmpdir(), 'loose-'))
  t.teardown(() => rmSync(loose, { recursive: true }))
  writeFileSync(path.join(loose, '.devcontainer.json'), '{}')
  t.equal(engineRepository({}, loose), null, 'never the folder as such')
})

void tap.test('of a run that is resumed the record is asked first', async (t) => {
  const root = t.testdir({ repo: {}, bare: {} })
  const host = machine(t, true)
  mkdirSync(host.iterionHome, { recursive: true })
  const record = (sandbox: 'none' | null, repository: string | null) =>
    createRun(host, {
      ...FIRST,
      workspace: path.join(root, 'bare'),
      source: { ...SOURCE, repository },
      flags: { ...NO_FLAGS, sandbox },
    }).record.id
  const {
    source: _,
    flags: __,
    workspace: ___,
    ...rest
  } = ask() as Extract<ForecastInput, { source: unknown }>
  t.equal(await willBeSandboxed(host, { ...rest, run: record(null, null) }), true)
  t.equal(await willBeSandboxed(host, { ...rest, run: record('none', null) }), false)
  await t.rejects(willBeSandboxed(host, { ...rest, run: 'nobody' }), { code: 'RUN_UNKNOWN' })
})
