import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import type { ContainerSpec } from '../../src/sandbox/driver.ts'
import { DIFFERENCES } from '../../src/sandbox/drivers/differences.ts'
import { CAPABILITIES, runArgs } from '../../src/sandbox/drivers/docker-args.ts'
import { DENIED_CALLS, SOCKET_FAMILIES } from '../../src/sandbox/drivers/seccomp-profile.ts'
import { proxyVariables } from '../../src/sandbox/env-file.ts'
import { hostState } from '../../src/sandbox/host-state.ts'
import { unsafeSource, unsafeTarget } from '../../src/sandbox/mount-rules.ts'
import { codes, readPage, sectionOf, tableOf } from '../support/page.ts'

// docs/sandbox.md: what a container is made of.

const PAGE = readPage('docs/sandbox.md')
const section = (heading: string) => sectionOf(PAGE, heading)

/** The names of a list in a source file. */
function listed(file: string, from: string, to: string): string[] {
  const text = readPage(file)
  const start = text.indexOf(from)
  if (start === -1) throw new Error(`${file} has no ${from}`)
  const part = text.slice(start, text.indexOf(to, start))
  return [...part.matchAll(/'([^']+)'/g)].map(([, name = '']) => name)
}

const SPEC: ContainerSpec = {
  name: 'iterion-x',
  image: 'sha256:abc',
  user: '1000:1000',
  workdir: '/w',
  labels: { a: '1' },
  network: 'none',
  mounts: [{ source: '/w', target: '/w', readOnly: false }],
  tmpfs: [{ target: '/s', mode: '0700', owner: undefined, sizeBytes: 64, executable: false }],
  idFile: '/t/cid',
  seccompFile: '/t/seccomp.json',
  unsetEnv: ['X'],
  hostname: 'sandbox',
  volumes: [],
  imageVolumes: [],
  engineArgs: ['--shm-size=1g'],
  pidsLimit: 10,
  memoryBytes: 20,
}

void tap.test('the table of options has every option of a container, and no other', async (t) => {
  const rows = tableOf(section('The container'), '| option | why |')
  const documented = rows.map(([option = '']) => codes(option)[0] ?? '')
  const isDocumented = (arg: string) => (one: string) =>
    one.endsWith('…') ? arg.startsWith(one.slice(0, -1)) : arg === one
  const used = new Set<string>()
  for (const runtime of ['docker', 'podman'] as const) {
    const all = runArgs(SPEC, runtime)
    const options = all.slice(1, all.indexOf(SPEC.image))
    for (const arg of options) {
      // One row for both: the text says what podman has there.
      const found = documented.find(isDocumented(arg.replace(/^(--entrypoint=).*/, '$1cat')))
      t.ok(found, `${arg} of ${runtime}`)
      used.add(found ?? '')
    }
  }
  t.strictSame(documented.toSorted(), [...used].toSorted())
  const reasonOf = (option: string) => rows.find(([cell]) => cell === `\`${option}\``)?.[1] ?? ''
  t.strictSame(codes(reasonOf('--cap-add=…')), CAPABILITIES)
  t.ok(runArgs(SPEC, 'podman').includes(`--entrypoint=${codes(reasonOf('--entrypoint=cat'))[0]}`))
  const tmpfs = runArgs(SPEC, 'docker').find((arg) => arg.startsWith('--tmpfs'))
  for (const word of codes(reasonOf('--tmpfs=…'))) t.match(tmpfs, word)
})

void tap.test('what the kernel refuses is told with its reasons', async (t) => {
  const part = section('The container').split('### What the kernel does')[1] ?? ''
  t.strictSame(
    tableOf(part, '| a refused call |').map(([why]) => why),
    DENIED_CALLS.map(({ why }) => why),
  )
  const families = codes(part.split('A call')[0] ?? '')
  t.strictSame(families, Object.keys(SOCKET_FAMILIES))
})

void tap.test('the differences of podman are those of the driver', async (t) => {
  const rows = tableOf(section('podman'), '| difference | docker | podman | what is done about it |')
  t.strictSame(
    rows.map(([name = '']) => codes(name)[0]).toSorted(),
    Object.keys(DIFFERENCES.docker).toSorted(),
  )
  for (const [cell = '', docker = '', podman = ''] of rows) {
    const name = codes(cell)[0] as keyof typeof DIFFERENCES.docker
    for (const [runtime, text] of Object.entries({ docker, podman })) {
      const value: unknown = DIFFERENCES[runtime as 'docker' | 'podman'][name]
      if (typeof value === 'boolean') t.equal(text, value ? 'yes' : 'no', `${name} of ${runtime}`)
      else t.match(JSON.stringify(value), codes(text)[0] ?? 'nothing', `${name} of ${runtime}`)
    }
  }
})

void tap.test('the table of host state is what is bound, and how', async (t) => {
  const home = t.testdir({})
  const rows = tableOf(section('Host state'), '| folder | writable, kept | writable, in memory alone |')
  const paths = (folder: string, cell: string) =>
    codes(cell).map((name) => path.join(home, folder, name.replaceAll('*', 'one')))
  const wanted = { kept: [] as string[], scratch: [] as string[], folders: [] as string[] }
  for (const [cell = '', kept = '', scratch = ''] of rows) {
    const folder = (codes(cell)[0] ?? '').replace('~/', '')
    mkdirSync(path.join(home, folder, 'projects/one/bots/one/memory'), { recursive: true })
    wanted.folders.push(path.join(home, folder))
    wanted.kept.push(...paths(folder, kept))
    wanted.scratch.push(...paths(folder, scratch))
  }
  for (const name of ['history.jsonl', '.credentials.json']) {
    writeFileSync(path.join(home, '.claude', name), '')
  }
  const state = hostState({
    home,
    iterionHome: path.join(home, 'elsewhere'),
    workspace: { source: '/nowhere', target: '/nowhere', readOnly: false },
    owner: undefined,
    scratchBytes: 1,
  })
  const targets = (readOnly: boolean) =>
    state.mounts.filter((one) => one.readOnly === readOnly).map(({ target }) => target)
  t.strictSame(targets(true), wanted.folders)
  t.strictSame(targets(false).toSorted(), wanted.kept.toSorted())
  t.strictSame(state.scratch.map(({ target }) => target).toSorted(), wanted.scratch.toSorted())
})

void tap.test('what git obeys is said to be read-only, as it is', async (t) => {
  const rows = tableOf(section('Workspace and git'), '| in the git folder | in the sandbox |')
  const file = 'src/sandbox/git-mounts.ts'
  const guarded = listed(file, 'const GUARDED = [', ']').filter(
    (one) => one !== 'file' && one !== 'folder',
  )
  t.strictSame(codes(rows[0]?.[0] ?? ''), guarded)
  t.strictSame(codes(rows[1]?.[0] ?? ''), listed(file, 'const READ_ONLY_PARTS = [', ']'))
  const obeyed = 'src/sandbox/workspace-mount.ts'
  const refused = codes(section('Workspace and git').split('\n\n')[1] ?? '').filter((one) =>
    one.startsWith('~/'),
  )
  t.strictSame(
    refused,
    [
      ...listed(obeyed, 'const OBEYED = [', ']'),
      ...listed(obeyed, 'const OBEYED_ITSELF = [', ']'),
    ].map((one) => `~/${one}`),
  )
})

void tap.test('the rules of mounts are those of the code', async (t) => {
  const rows = tableOf(section('Mounts and attachments'), '| what | bound |')
  const file = 'src/sandbox/mount-rules.ts'
  const lists = (...names: readonly string[]) =>
    names.flatMap((name) => listed(file, `const ${name} = [`, '\n'))
  t.strictSame(codes(rows[0]?.[0] ?? ''), lists('WHOLE'))
  t.strictSame(codes(rows[1]?.[0] ?? ''), lists('KERNEL_TREES', 'SERVICE_TREES', 'ENGINE_TREES'))
  const system = listed(file, 'const SYSTEM_TREES = [', '/** Folders inside')
  t.strictSame(codes(rows[5]?.[0] ?? ''), [...system, ...lists('WORK_TREES')])
  const places = { home: '/home/ada', iterionHome: '/home/ada/.iterion', tempRoot: '/tmp' }
  for (const [cell = '', verdict = ''] of [...rows.slice(0, 2), ...rows.slice(3, 4)]) {
    t.equal(verdict, 'never')
    for (const name of codes(cell)) {
      const source = name.startsWith('/') ? name : `/srv/${name}`
      t.ok(unsafeSource(source, true, places), source)
    }
  }
  t.equal(unsafeSource('/usr/share', true, places), undefined)
  t.match(unsafeSource('/usr/share', false, places), /read-only/)
  const targets = codes(/^A target is[\s\S]*?;/m.exec(section('Mounts and attachments'))?.[0] ?? '')
  t.strictSame(targets, listed(file, 'const OWN_TARGETS = [', '/** Why nothing'))
  for (const target of targets) {
    t.ok(unsafeTarget(target), target)
    t.ok(unsafeTarget(`${target}/below`), target)
  }
})

void tap.test('the proxy variables are those of the code', async (t) => {
  const item = /^7\. [\s\S]*?\n\n/m.exec(section('Secrets and environment'))?.[0] ?? ''
  const variables = proxyVariables('http://x')
  const { NODE_USE_ENV_PROXY: node, ...proxies } = variables
  const upper = Object.keys(proxies).filter((name) => name === name.toUpperCase())
  t.strictSame(codes(item).slice(0, 4), upper)
  t.equal(codes(item).at(-2), variables['NO_PROXY'])
  t.equal(codes(item).at(-1), `NODE_USE_ENV_PROXY=${node}`)
  for (const name of upper) t.equal(variables[name.toLowerCase()], variables[name], name)
})

