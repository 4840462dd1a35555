import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import { judgeMounts } from '../../src/sandbox/devcontainer/judge-mounts.ts'
import { loadRepository } from '../../src/sandbox/devcontainer/load-repository.ts'
import type { Devcontainer } from '../../src/sandbox/devcontainer/read-devcontainer.ts'
import { filterEnvironment } from '../../src/sandbox/env-deny.ts'

// What public projects write, by its structure: what comes out is what its author would expect, or a reason.

const FIXTURES = new URL('../fixtures/devcontainers/', import.meta.url)

const USER = { uid: process.getuid?.() ?? 0, gid: 0, name: 'ada' }

function load(t: Test, fixture: string) {
  const root = t.testdir({ quarry: { fixtures: {}, '.git': {} } })
  const repository = path.join(root, 'quarry')
  mkdirSync(path.join(repository, '.devcontainer'))
  writeFileSync(path.join(repository, '.devcontainer/Dockerfile'), 'FROM scratch\n')
  copyFileSync(new URL(fixture, FIXTURES), path.join(repository, '.devcontainer/devcontainer.json'))
  const env = { HOME: '/home/ada', USER: 'ada', GITHUB_TOKEN: 'hidden' }
  const loaded = loadRepository({
    host: { env, user: USER },
    repository,
    workspace: repository,
    operatorEnv: {},
  })
  const refused: string[] = []
  const devcontainer = loaded?.devcontainer
  const site = {
    home: path.join(root, 'home'),
    iterionHome: path.join(root, 'home/.iterion'),
    tempRoot: path.join(root, 'temp'),
    workflowDir: repository,
    workspace: {
      source: repository,
      target: devcontainer?.workspaceFolder ?? repository,
      readOnly: false,
    },
    gitFolders: [],
  }
  const mounts = judgeMounts(devcontainer?.mounts ?? [], site, (index, reason) => {
    refused.push(`mounts.${index}: ${reason}`)
  })
  return { repository, loaded, devcontainer, mounts, refused }
}

interface Row {
  /** What it says of the container, the user, the folder, the commands. */
  readonly is?: Partial<Omit<Devcontainer, 'build'>> & { readonly build?: object }
  readonly ignored?: readonly string[]
  readonly withheld?: readonly string[]
  /** Variables that it may not set. */
  readonly denied?: readonly string[]
  readonly volumes?: readonly string[]
  readonly refused?: readonly string[]
}

const IMAGES = 'registry.example.org/devcontainers'

const ROWS: Readonly<Record<string, Row>> = {
  '01-image-only.json': {
    is: {
      image: `${IMAGES}/python:1-3.12-bookworm`,
      postCreate: ['pip3 install --user -r requirements.txt'],
      user: undefined,
    },
    ignored: ['forwardPorts'],
  },
  '02-build-with-args.json': {
    is: {
      image: undefined,
      build: {
        dockerfile: 'REPO/.devcontainer/Dockerfile',
        context: 'REPO',
        args: { VARIANT: '22-bookworm', INSTALL_BROWSERS: 'false' },
        target: 'dev',
      },
      containerEnv: { CI: '', DATABASE_URL: 'sqlite:///REPO/dev.db' },
      postCreate: [['npm', 'ci']],
      user: 'node',
    },
    ignored: ['build.cacheFrom'],
    withheld: ['LIGHTHOUSE_BROWSERS'],
  },
  '03-features.json': {
    is: { image: `${IMAGES}/base:ubuntu-24.04`, postCreate: ['make setup'], user: 'vscode' },
    // Nothing of a feature is installed, and nothing runs outside: the author reads both.
    ignored: [
      'features',
      'overrideFeatureInstallOrder',
      'hostRequirements',
      'initializeCommand',
      'onCreateCommand',
      'updateContentCommand',
      'postStartCommand',
      'portsAttributes',
    ],
  },
  '04-volumes.json': {
    is: {
      build: { context: 'REPO' },
      workspaceFolder: '/workspaces/quarry',
      engineArgs: ['--shm-size=1gb'],
      user: 'vscode',
    },
    ignored: ['runArgs --init', 'runArgs --name', 'mounts.0', 'mounts.1', 'mounts.2'],
    denied: ['PROMPT_COMMAND'],
    volumes: ['/workspaces/quarry/node_modules', '/commandhistory', '/cache/target'],
  },
  '05-debugger.json': {
    refused: [
      'runArgs.0: "--cap-add": it would give rights over the host',
      'runArgs.1: "--security-opt": it would take a fence away',
      
      'capAdd: it would take a fence away',
      'securityOpt: it would take a fence away',
    ],
  },
  '06-parallel-commands.json': {
    is: {
      image: `${IMAGES}/php:8.3`,
      postCreate: [
        'composer install --no-interaction',
        ['npm', '--prefix', 'web', 'ci'],
        'for n in 1 2 3; do echo ${n:-none} $(date +%s); done',
      ],
      user: 'vscode',
    },
    ignored: ['waitFor', 'updateRemoteUserUID'],
  },
  '07-remote-env.json': {
    is: {
      containerEnv: {
        GOPATH: '/home/vscode/go',
        GOFLAGS: '-buildvcs=false',
        NODE_OPTIONS: '--max-old-space-size=4096',
        LEDGER_ENV: 'dev',
        TZ: 'UTC',
      },
      remoteEnv: {
        PATH: '${containerEnv:PATH}:/home/vscode/go/bin',
        LEDGER_HOME: 'REPO/.ledger',
        GITHUB_TOKEN: '',
      },
    },
    ignored: ['remoteEnv.EDITOR'],
    withheld: ['GITHUB_TOKEN'],
    denied: ['GOFLAGS', 'NODE_OPTIONS', 'PATH', 'GITHUB_TOKEN'],
  },
  '08-workspace-mount.json': {
    is: {
      workspaceFolder: '/workspaces/quarry',
      workspaceMount: {
        type: 'bind',
        source: 'REPO',
        target: '/workspaces/quarry',
        readOnly: false,
      },
      user: 'vscode',
    },
    ignored: ['overrideCommand', 'shutdownAction', 'init', 'userEnvProbe', 'postAttachCommand'],
  },
  '09-compose.json': {
    refused: ['dockerComposeFile: several containers are not supported; name an image or a build'],
  },
  '10-home-of-the-caller.json': {
    is: { remoteEnv: { REGION: 'eu-west' } },
    withheld: ['FLEET_REGION', 'USERPROFILE'],
    refused: [
      'mounts.0: its source "ada/.ssh" is not an absolute path',
      'mounts.1: its source "ada/.m2" is not an absolute path',
      'mounts.2: its source "/var/run/docker.sock" is outside of the workspace',
    ],
  },
}

void tap.test('every file has a row', async (t) => {
  t.strictSame(readdirSync(FIXTURES).toSorted(), Object.keys(ROWS))
  for (const name of Object.keys(ROWS)) {
    t.match(readFileSync(new URL(name, FIXTURES), 'utf8'), /"name": "/, name)
  }
})

for (const [name, row] of Object.entries(ROWS)) {
  void tap.test(`${name} comes out as its author would expect, or refused`, async (t) => {
    const { repository, loaded, devcontainer, mounts, refused } = load(t, name)
    const { is = {}, ignored = [], withheld = [], denied = [], volumes = [] } = row
    const fault = loaded?.fault
    const reasons = fault ? fault.problems.map(({ message }) => message) : refused
    t.strictSame(reasons, row.refused ?? [])
    t.equal(fault?.code, devcontainer === undefined ? 'SANDBOX_SPEC_UNSAFE' : undefined)
    if (devcontainer === undefined) return
    const told = JSON.parse(
      JSON.stringify(devcontainer).replaceAll(repository, 'REPO'),
    ) as Readonly<Record<string, unknown>>
    for (const [key, value] of Object.entries(is)) {
      if (key === 'build') t.match(told[key], value)
      else t.strictSame(told[key], value, key)
    }
    t.strictSame(
      devcontainer.ignored.map(({ key }) => key),
      ignored,
    )
    t.strictSame(devcontainer.withheld, withheld)
    t.strictSame(
      [devcontainer.containerEnv, devcontainer.remoteEnv].flatMap(
        (env) => filterEnvironment(env).denied,
      ),
      denied,
    )
    t.strictSame(
      mounts.volumes.map(({ target }) => target),
      volumes,
    )
    t.notMatch(JSON.stringify(devcontainer), /hidden/)
  })
}
