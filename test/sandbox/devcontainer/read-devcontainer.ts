import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import type { EgressError } from '../../../src/errors.ts'
import { IGNORED } from '../../../src/sandbox/devcontainer/keys.ts'
import { readDevcontainer } from '../../../src/sandbox/devcontainer/read-devcontainer.ts'

const FILE = '.devcontainer/devcontainer.json'
const HOST = {
  USER: 'ada',
  HOME: '/home/ada',
  AWS_SECRET_ACCESS_KEY: 'hidden',
  GITHUB_TOKEN: 'hidden',
}

/** Reads a devcontainer.json, given as a text or as what it says beside an image. */
function read(t: Test, written: unknown, operatorEnv: Readonly<Record<string, string>> = {}) {
  const repository = path.join(t.testdirName, 'repo')
  const folder = path.join(repository, '.devcontainer')
  mkdirSync(folder, { recursive: true })
  writeFileSync(path.join(folder, 'Dockerfile'), '')
  const text = typeof written === 'string' ? written : JSON.stringify(written)
  return readDevcontainer({ name: FILE, folder, text }, repository, {
    env: HOST,
    operatorEnv,
    localWorkspaceFolder: '/src/shop',
    containerWorkspaceFolder: '/src/shop',
    devcontainerId: 'abc',
  })
}
const readMore = (t: Test, more: object) => read(t, { image: 'x', ...more })

/** Every problem of a file, as `CODE message`. */
function problemsOf(t: Test, written: unknown): string[] {
  try {
    read(t, written)
    return []
  } catch (error) {
    return (error as EgressError).problems.map(({ code, message }) => `${code} ${message}`)
  }
}
const problemsOfMore = (t: Test, more: object) => problemsOf(t, { image: 'x', ...more })
const UNSAFE = 'SANDBOX_SPEC_UNSAFE'
const INVALID = 'DEVCONTAINER_INVALID'

void tap.test('an image is enough', async (t) => {
  t.testdir({})
  const { problemAt, ...read_ } = read(t, { image: 'debian:12' })
  t.type(problemAt, 'function')
  t.strictSame(read_, {
    file: FILE,
    image: 'debian:12',
    build: undefined,
    containerEnv: {},
    remoteEnv: {},
    user: undefined,
    workspaceFolder: undefined,
    workspaceMount: undefined,
    mounts: [],
    postCreate: [],
    engineArgs: [],
    ignored: [],
    withheld: [],
  })
})

void tap.test('what is no object, or names no container, is no such file', async (t) => {
  t.testdir({})
  for (const text of ['[]', '"x"', 'null', '1']) {
    t.strictSame(problemsOf(t, text)[0], `${INVALID} expected an object`, text)
  }
  t.strictSame(problemsOf(t, {}), [`${INVALID} names neither an image nor a build`])
  t.strictSame(problemsOf(t, { postCreateCommand: 'x' }).length, 1)
  t.strictSame(problemsOf(t, '{"__proto__": {"image": "x"}}').length, 1, 'nor does a prototype')
})

void tap.test('values of the wrong kind are all told, with their places', async (t) => {
  t.testdir({})
  const text = `{
  "image": 1,
  "containerEnv": { "A": true, "B": ["x"] },
  "remoteEnv": [],
  "mounts": {},
  "runArgs": "--init",
  "postCreateCommand": 5,
  "workspaceFolder": null,
  "remoteUser": {}
}`
  let problems: EgressError['problems'] = []
  try {
    read(t, text)
  } catch (error) {
    problems = (error as EgressError).problems
  }
  t.strictSame(
    problems.map(
      ({ code, message, at }) => `${code} ${at?.file}:${at?.line}:${at?.column} ${message}`,
    ),
    [
      `2:12 image: expected a text`,
      `3:26 containerEnv.A: expected a text`,
      `3:37 containerEnv.B: expected a text`,
      `4:16 remoteEnv: expected an object of texts`,
      `5:13 mounts: expected a list`,
      `6:14 runArgs: expected a list of texts`,
      `7:24 postCreateCommand: expected a list of texts`,
      `8:22 workspaceFolder: expected a text`,
      `9:17 remoteUser: expected a text`,
    ].map((one) => `${INVALID} ${FILE}:${one}`),
  )
})

void tap.test('what is refused is told with line and reason, whatever else is wrong', async (t) => {
  t.testdir({})
  const text = `{
  "image": "x",
  "runArgs": [
    "--init",
    "--privileged"
  ],
  "capAdd": ["SYS_PTRACE"],
  "remoteUser": 1
}`
  try {
    read(t, text)
    t.fail('taken')
  } catch (error) {
    t.match(error, { code: UNSAFE, at: { file: FILE, line: 5, column: 5 } })
    t.strictSame(
      (error as EgressError).problems.map(({ message, at }) => `${at?.line} ${message}`),
      [
        '5 runArgs.1: "--privileged": it would give rights over the host',
        '7 capAdd: it would take a fence away',
        '8 remoteUser: expected a text',
      ],
    )
  }
})

void tap.test(
  'D-14: keys that open the sandbox are refused, unless they say nothing',
  async (t) => {
    t.testdir({})
    for (const privileged of [true, 'true', 1, null, {}]) {
      t.strictSame(problemsOfMore(t, { privileged }), [
        `${UNSAFE} privileged: it would give rights over the host`,
      ])
    }
    for (const value of [['ALL'], 'ALL', { a: 1 }, true]) {
      t.strictSame(problemsOfMore(t, { capAdd: value, securityOpt: value }), [
        `${UNSAFE} capAdd: it would take a fence away`,
        `${UNSAFE} securityOpt: it would take a fence away`,
      ])
    }
    t.strictSame(problemsOfMore(t, { privileged: false, capAdd: [], securityOpt: [] }), [])
    t.strictSame(readMore(t, { Privileged: true }).ignored, [
      { key: 'Privileged', reason: 'not known' },
    ])
  },
)

void tap.test('each key that does nothing is told, and one that says nothing is not', async (t) => {
  t.testdir({})
  for (const [key, reason] of Object.entries(IGNORED)) {
    for (const value of ['x', ['x'], { x: 1 }, true, false, 0]) {
      t.strictSame(readMore(t, { [key]: value }).ignored, [{ key, reason }])
    }
    for (const value of ['', [], {}, null]) {
      t.strictSame(readMore(t, { [key]: value }).ignored, [], key)
    }
  }
  const quiet = { $schema: 'x', name: '${localEnv:SSH_AUTH_SOCK}', customizations: { a: { b: 1 } } }
  t.strictSame(readMore(t, quiet).ignored, [])
})

void tap.test('who runs there: remoteUser before the flag before containerUser', async (t) => {
  t.testdir({})
  const userOf = (more: object) => readMore(t, more).user
  const all = { remoteUser: 'a', runArgs: ['-u', '5'], containerUser: 'c' }
  t.equal(userOf(all), 'a')
  t.equal(userOf({ ...all, remoteUser: undefined }), '5')
  t.equal(userOf({ containerUser: '1000:1000' }), '1000:1000')
})

void tap.test('workspaceFolder is what containerWorkspaceFolder stands for', async (t) => {
  t.testdir({})
  const folder = '/work/${localWorkspaceFolderBasename}'
  const mounts = ['source=v,target=${containerWorkspaceFolder}/node_modules']
  const workspaceMount =
    'source=${localWorkspaceFolder},target=${containerWorkspaceFolder},type=bind'
  const devcontainer = readMore(t, { workspaceFolder: folder, mounts, workspaceMount })
  t.equal(devcontainer.workspaceFolder, '/work/shop')
  t.equal(devcontainer.mounts[0]?.target, '/work/shop/node_modules')
  t.strictSame(devcontainer.workspaceMount, {
    type: 'bind',
    source: '/src/shop',
    target: '/work/shop',
    readOnly: false,
  })
  const own = readMore(t, { workspaceFolder: '${containerWorkspaceFolder}/app' })
  t.equal(own.workspaceFolder, '/src/shop/app', 'filled in once')
})

void tap.test('flags that change nothing are told, the others are handed on', async (t) => {
  t.testdir({})
  const { engineArgs, ignored } = readMore(t, { runArgs: ['--init', '--shm-size=1gb'] })
  t.strictSame(engineArgs, ['--shm-size=1gb'])
  t.match(ignored, [{ key: 'runArgs --init' }])
})

void tap.test('later steps report at the file’s own places', async (t) => {
  t.testdir({})
  const text = '{"image": "x",\n"mounts": ["target=/a",\n"target=/b"]}'
  const { problemAt } = read(t, text)
  t.match(problemAt(['mounts', 1], 'no'), {
    code: UNSAFE,
    message: 'mounts.1: no',
    at: { file: FILE, line: 3, column: 1 },
  })
  t.strictSame(
    problemAt(['mounts', 0], 'no').problems.map(({ message }) => message),
    ['mounts.0: no', 'mounts.1: no'],
    'with those before it, from the top',
  )
})

void tap.test('a flag is judged after the variables are filled in', async (t) => {
  t.testdir({})
  const rows: [more: object, value: string][] = [
    [{ image: '${localEnv:V}' }, '-v/:/h'],
    [{ runArgs: ['${localEnv:V}'] }, '--privileged'],
    [{ runArgs: ['-e', '${localEnv:V}'] }, 'LD_PRELOAD'],
    [{ runArgs: ['-e', 'A=${localEnv:V}'] }, '\u{1b}[2J'],
    [{ mounts: ['${localEnv:V}'] }, 'type=bind,source=/,target=/h,bind-propagation=shared'],
    [{ mounts: ['source=a,target=/v,${localEnv:V}'] }, 'source=b'],
    [{ mounts: [{ type: '${localEnv:V}', target: '/v' }] }, 'npipe'],
  ]
  for (const [more, value] of rows) {
    const text = JSON.stringify({ image: 'x', ...more })
    const filled = `\${localEnv:V:${JSON.stringify(value).slice(1, -1)}}`
    const says = JSON.parse(text.replaceAll('${localEnv:V}', () => filled)) as object
    t.throws(() => read(t, says), { code: UNSAFE }, value)
  }
})
