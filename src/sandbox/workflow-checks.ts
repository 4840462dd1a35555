import type { YamlPart } from '../policy/yaml-source.ts'
import { takesTask } from './backend.ts'
import { fitsVariable } from './env-file.ts'
import { parseMountText } from './mount-text.ts'
import { isEnvName } from './workflow-schema.ts'
import { isMap } from './is-map.ts'

type Path = readonly PropertyKey[]

/**
 * Reports what the shape of a workflow cannot say: what two keys say together, and what stands inside a text. Looks at
 * the raw values, so that it says everything at once, also in a file whose shape is wrong.
 */
export function checkWorkflow(source: YamlPart, value: unknown): void {
  const block = at(value, 'sandbox')
  checkContainer(source, block)
  checkEnvNames(source, ['sandbox', 'env'], at(block, 'env'))
  checkEnvNames(source, ['sandbox', 'build', 'args'], at(at(block, 'build'), 'args'))
  checkMounts(source, listOf(at(block, 'mounts')))
  checkSecrets(source, listOf(at(value, 'secrets')))
  checkUnique(source, 'nodes', 'id', listOf(at(value, 'nodes')))
  checkBackends(source, listOf(at(value, 'nodes')))
}

function checkContainer(source: YamlPart, block: unknown): void {
  const hasImage = at(block, 'image') !== undefined
  const hasBuild = at(block, 'build') !== undefined
  if (hasImage && hasBuild) {
    source.reportKey('WORKFLOW_SHAPE', ['sandbox'], 'build', 'give either image or build, not both')
  }
  if (at(block, 'mode') === 'inline' && !hasImage && !hasBuild) {
    source.report(
      'WORKFLOW_SHAPE',
      ['sandbox', 'mode'],
      'inline needs an image or a build beside it',
    )
  }
}

function checkEnvNames(source: YamlPart, path: Path, env: unknown): void {
  if (!isMap(env)) return
  for (const [name, value] of Object.entries(env)) {
    if (typeof value === 'string' && !fitsVariable(name, value)) {
      const message = `${name} is too large: a variable and its name have less than 128 KiB`
      source.reportKey('WORKFLOW_SHAPE', path, name, message)
    }
    if (isEnvName(name)) continue
    const message = `${JSON.stringify(name)} is no name of a variable: letters, digits and _, no digit first`
    source.reportKey('WORKFLOW_SHAPE', path, name, message)
  }
}

function checkMounts(source: YamlPart, mounts: readonly unknown[]): void {
  for (const [i, item] of mounts.entries()) {
    const path = ['sandbox', 'mounts', i]
    const read = typeof item === 'string' ? parseMountText(item) : undefined
    if (read && 'message' in read) {
      source.report('WORKFLOW_SHAPE', path, read.message, read.correction)
      continue
    }
    const sourcePath = read?.source ?? at(item, 'source')
    const target = read?.target ?? at(item, 'target')
    if (typeof item === 'string' && /\p{Cc}/u.test(item)) {
      source.report('WORKFLOW_SHAPE', path, 'a mount has no control characters')
    }
    if (typeof sourcePath === 'string' && sourcePath.startsWith('~')) {
      source.report(
        'WORKFLOW_SHAPE',
        path,
        'no shell reads the source of a mount: ~ would be a folder of that name',
      )
    }
    if (typeof target === 'string' && !target.startsWith('/')) {
      source.report(
        'WORKFLOW_SHAPE',
        path,
        `the target ${JSON.stringify(target)} of a mount is not absolute`,
      )
    }
  }
}

function checkSecrets(source: YamlPart, secrets: readonly unknown[]): void {
  for (const kind of ['env', 'file']) {
    checkUnique(
      source,
      'secrets',
      'name',
      secrets.map((one) => (at(one, 'as') === kind ? one : undefined)),
    )
  }
  for (const [i, secret] of secrets.entries()) {
    const from = at(secret, 'from')
    if (!isMap(from)) continue
    const given = ['env', 'file'].filter((key) => at(from, key) !== undefined)
    if (given.length === 1) continue
    source.report(
      'WORKFLOW_SHAPE',
      ['secrets', i, 'from'],
      'a secret comes from exactly one of env and file',
    )
  }
}

function checkBackends(source: YamlPart, nodes: readonly unknown[]): void {
  for (const [i, node] of nodes.entries()) {
    const report = (key: string, message: string) =>
      source.report('WORKFLOW_SHAPE', ['nodes', i, key], message)
    const backend = at(node, 'backend') ?? 'tool'
    const command = at(node, 'command')
    const fallback = listOf(at(node, 'fallback'))
    const isTask = typeof backend === 'string' && takesTask(backend)
    if (isTask && typeof command === 'string' && command.startsWith('-')) {
      report('command', 'an agent would take a task with a dash in front for an option')
    }
    if (backend === 'claw' && Array.isArray(command)) {
      report('command', 'claw is given a task, which is a text; a command is for the backend tool')
    }
    if (fallback.length === 0) continue
    if (!isTask || Array.isArray(command)) {
      report('fallback', 'a command has no fallback: only a task, which is a text, does')
    } else if (fallback.includes('tool')) {
      report('fallback', 'tool runs commands, and no tasks')
    } else if (new Set([backend, ...fallback]).size <= fallback.length) {
      report('fallback', 'a backend is named twice')
    }
  }
}

function checkUnique(source: YamlPart, list: string, key: string, items: readonly unknown[]): void {
  const seen = new Set<unknown>()
  for (const [i, item] of items.entries()) {
    const name = at(item, key)
    if (typeof name !== 'string') continue
    if (seen.has(name)) {
      source.report(
        'WORKFLOW_SHAPE',
        [list, i, key],
        `the ${key} ${JSON.stringify(name)} is given twice`,
      )
    }
    seen.add(name)
  }
}

function at(value: unknown, key: string): unknown {
  return isMap(value) && Object.hasOwn(value, key) ? value[key] : undefined
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}
