import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { TEST_IMAGE } from '../../support/docker.ts'
import { type Attempt, FILE } from './attempt.ts'

const mount = (text: string) => ({ mounts: [text] })
const args = (...runArgs: string[]) => ({ runArgs })

const MOUNTS: readonly Attempt[] = [
  ...[
    'source=/var/run/docker.sock,target=/s,type=bind',
    'type=bind,src=/run/docker.sock,dst=/s',
    'source=/var/run/../run/docker.sock,target=/s,type=bind',
    'source=//var//run/docker.sock,target=/s,type=bind',
    'source=/,target=/h,type=bind',
    'source=/proc/1/root,target=/h,type=bind',
    'source=${localEnv:HOME}/.ssh,target=/h,type=bind',
    'source=${localEnv:HOME},target=/h,type=bind',
    'TYPE=bind,Source=/etc,TARGET=/h',
    'type=bind,"source=/etc",target=/h',
  ].map((text): Attempt => ({
    name: `mount ${text}`,
    says: mount(text),
    refused: [4, /outside of the workspace|not an absolute path/],
  })),
  {
    name: 'mount of a link that leads out',
    says: mount('source=${localWorkspaceFolder}/way,target=/h,type=bind'),
    prepares: ({ repository, outside }) => symlinkSync(outside, path.join(repository, 'way')),
    refused: [4, /outside of the workspace/],
  },
  {
    name: 'mount as an object',
    says: { mounts: [{ type: 'bind', source: '/etc', target: '/h' }] },
    refused: [4, /outside of the workspace/],
  },
  {
    name: 'mount with propagation',
    says: mount('type=bind,source=${localWorkspaceFolder},target=/h,bind-propagation=rshared'),
    refused: [4, /bind-propagation/],
  },
  {
    name: 'volume that is a bind',
    says: mount(
      'type=volume,source=v,target=/h,volume-opt=type=none,volume-opt=o=bind,volume-opt=device=/',
    ),
    refused: [4, /volume-opt/],
  },
  {
    name: 'mount over the accounts',
    says: mount('type=bind,source=${localWorkspaceFolder},target=/etc/passwd'),
    refused: [4, /\/etc\/passwd/],
  },
  {
    name: 'mount over the secrets',
    says: mount('type=tmpfs,target=/run/secrets'),
    refused: [4, /\/run\/secrets/],
  },
  ...[
    'type=bind,source=${localWorkspaceFolder}/cat,target=/usr/bin/cat',
    'type=bind,source=${localWorkspaceFolder}/cat,target=/usr/local/bin',
    'type=tmpfs,target=/etc',
    'type=bind,source=${localWorkspaceFolder},target=/var/run/secrets',
    'type=bind,source=${localWorkspaceFolder},target=/var/run/iterion-egress/status',
    'type=bind,source=${localWorkspaceFolder}/cat,target=/home/x/.claude/settings.json',
  ].map((text): Attempt => ({
    name: `mount over what programs obey ${text}`,
    says: mount(text),
    prepares: ({ repository }) => writeFileSync(path.join(repository, 'cat'), '#!/bin/sh\n'),
    refused: [4, /programs|\/run\/|\/etc\//],
  })),
  {
    name: 'workspace over programs',
    says: { workspaceFolder: '/usr/bin' },
    refused: [3, /programs of the image/],
  },
  {
    name: 'a way into the git folder of a repository inside',
    says: mount('type=bind,source=${localWorkspaceFolder}/sub/.git/hooks,target=/x'),
    prepares: ({ repository }) =>
      execFileSync('git', ['init', '--quiet', path.join(repository, 'sub')]),
    refused: [4, /git/],
  },
  {
    name: 'a second way into the git folder',
    says: mount('type=bind,source=${localWorkspaceFolder}/.git,target=/g'),
    refused: [4, /git/],
  },
  {
    name: 'workspace mount of something else',
    says: { workspaceMount: 'source=/,target=/w,type=bind', workspaceFolder: '/w' },
    refused: [3, /not a bind of the workspace/],
  },
  {
    name: 'workspace over the accounts',
    says: { workspaceFolder: '/etc' },
    refused: [3, /programs of the image/],
  },
  {
    name: 'workspace over the kernel',
    says: { workspaceFolder: '/proc/1' },
    refused: [3, /workspaceFolder/],
  },
]

const RUN_ARGS: readonly Attempt[] = [
  ['--privileged'],
  ['--network=host'],
  ['--net', 'host'],
  ['--pid=host'],
  ['--ipc', 'host'],
  ['--userns=host'],
  ['-v', '/:/h'],
  ['-v/:/h'],
  ['--volume=/:/h'],
  ['--mount=type=bind,src=/,dst=/h'],
  ['--volumes-from', 'other'],
  ['--cap-add', 'SYS_ADMIN'],
  ['--security-opt', 'seccomp=unconfined'],
  ['--device=/dev/mem'],
  ['--env-file', '/etc/environment'],
  ['-eHOME'],
  ['--add-host=allowed.test:10.0.0.1'],
  ['--dns=8.8.8.8'],
  ['-itP'],
  ['-p', '0.0.0.0:22:22'],
  ['--cgroup-parent', '/'],
  ['--entrypoint', '/bin/sh'],
  ['--', 'debian'],
  ['--shm-size=1g,--privileged'],
].map((words) => ({
  name: `runArgs ${words.join(' ')}`,
  says: args(...words),
  refused: [4, /runArgs/] as const,
}))

const KEYS: readonly Attempt[] = [
  { name: 'privileged', says: { privileged: true }, refused: [3, /rights over the host/] },
  { name: 'capAdd', says: { capAdd: ['SYS_PTRACE'] }, refused: [3, /fence/] },
  { name: 'securityOpt', says: { securityOpt: ['seccomp=unconfined'] }, refused: [3, /fence/] },
  {
    name: 'compose',
    says: '{ "dockerComposeFile": "../docker-compose.yml", "service": "app" }',
    refused: [1, /several containers/],
  },
  { name: 'an image that is an option', says: '{ "image": "-v/:/h" }', refused: [1, /image/] },
  {
    name: 'an image with a second word',
    says: `{ "image": "${TEST_IMAGE} --privileged" }`,
    refused: [1, /image/],
  },
  {
    name: 'a user with a second line',
    says: { remoteUser: 'root\n--privileged' },
    refused: [3, /remoteUser/],
  },
  {
    name: 'a variable whose name is two',
    says: { containerEnv: { 'A=B': '1' } },
    refused: [4, /no name of a variable/],
  },
  {
    name: 'a variable with a second line',
    says: { containerEnv: { A: 'x\nLD_PRELOAD=/x.so' } },
    refused: [4, /control character/],
  },
]

/** Other people's files. */
const STRANGERS: readonly Attempt[] = ['.git', '.devcontainer/devcontainer.json', '.'].map(
  (name) => ({
    name: `${name} of somebody else`,
    prepares: ({ repository, workspace }) => {
      execFileSync('chown', ['4711', path.join(repository, name)])
      execFileSync('mkdir', [workspace])
    },
    inside: 'work',
    refused: [0, /belongs to UID 4711/] as const,
  }),
)

const BUILDS: readonly Attempt[] = [
  {
    name: 'build of the host',
    says: '{ "build": { "dockerfile": "Dockerfile", "context": "../../.." } }',
    prepares: ({ repository }) =>
      writeFileSync(path.join(repository, '.devcontainer/Dockerfile'), 'FROM scratch\n'),
    refused: [1, /outside of the repository/],
  },
  {
    name: 'dockerfile of the host',
    says: '{ "build": { "dockerfile": "/etc/passwd" } }',
    refused: [1, /outside of the repository/],
  },
  {
    name: 'dockerfile behind a link',
    says: '{ "build": { "dockerfile": "Dockerfile" } }',
    prepares: ({ repository, outside }) =>
      symlinkSync(
        path.join(outside, 'secret.txt'),
        path.join(repository, '.devcontainer/Dockerfile'),
      ),
    refused: [1, /outside of the repository/],
  },
  {
    name: 'options of the build',
    says: '{ "build": { "dockerfile": "Dockerfile", "options": ["--build-context", "x=/"] } }',
    prepares: ({ repository }) =>
      writeFileSync(path.join(repository, '.devcontainer/Dockerfile'), 'FROM scratch\n'),
    refused: [1, /options/],
  },
]

const FILES: readonly Attempt[] = [
  {
    name: 'the file is a link that leads out',
    prepares: ({ repository, outside }) => {
      execFileSync('rm', [path.join(repository, FILE)])
      symlinkSync(path.join(outside, 'secret.txt'), path.join(repository, FILE))
    },
    refused: [0, /leads out of the repository/],
  },
  {
    name: 'its folder is a link that leads out',
    prepares: ({ repository, outside }) => {
      execFileSync('rm', ['-r', path.join(repository, '.devcontainer')])
      writeFileSync(path.join(outside, 'devcontainer.json'), '{ "image": "x" }')
      symlinkSync(outside, path.join(repository, '.devcontainer'))
    },
    refused: [0, /leads out of the repository/],
  },
  {
    name: 'the file is a pipe',
    prepares: ({ repository }) => {
      execFileSync('rm', [path.join(repository, FILE)])
      execFileSync('mkfifo', [path.join(repository, FILE)])
    },
    refused: [0, /not a regular file/],
  },
  {
    name: 'the file is a folder',
    prepares: ({ repository }) => {
      execFileSync('rm', [path.join(repository, FILE)])
      mkdirSync(path.join(repository, FILE))
    },
    refused: [0, /not a regular file/],
  },
  {
    name: 'the file is huge',
    says: `{ "image": "${TEST_IMAGE}" }${' '.repeat(2 * 1024 * 1024)}`,
    refused: [0, /1 MiB/],
  },
  {
    name: 'two images',
    says: `{ "image": "${TEST_IMAGE}",\n "image": "other" }`,
    refused: [2, /given twice/],
  },
  {
    name: 'nested without end',
    says: `{ "image": ${'['.repeat(100_000)}`,
    refused: [1, /nested/],
  },
  { name: 'no object', says: '["image"]', refused: [1, /expected an object/] },
  { name: 'no JSON', says: '{ "image": "x" } }', refused: [1, /no JSON/] },
]

/** Attempts that are refused, with the place and the reason. */
export const REFUSED: readonly Attempt[] = [
  ...MOUNTS,
  ...RUN_ARGS,
  ...KEYS,
  ...STRANGERS,
  ...BUILDS,
  ...FILES,
]
