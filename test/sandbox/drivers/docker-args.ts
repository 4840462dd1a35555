import tap from 'tap'
import type { ContainerSpec, ExecSpec } from '../../../src/sandbox/driver.ts'
import { CAPABILITIES, execArgs, runArgs } from '../../../src/sandbox/drivers/docker-args.ts'

const SPEC: ContainerSpec = {
  name: 'iterion-x',
  image: 'sha256:abc',
  user: '1000:1000',
  workdir: '/w',
  labels: { a: '1', b: 'x=y' },
  network: 'none',
  mounts: [
    { source: '/w', target: '/w', readOnly: false },
    { source: '/a,b', target: '/c', readOnly: true },
  ],
  tmpfs: [
    {
      target: '/run/secrets',
      mode: '0700',
      owner: { uid: 5, gid: 6 },
      sizeBytes: 64,
      executable: false,
    },
    { target: '/home/u', mode: '0700', owner: undefined, sizeBytes: 64, executable: true },
  ],
  idFile: '/t/cid',
  seccompFile: '/t/seccomp.json',
  unsetEnv: [],
  hostname: 'sandbox',
  volumes: [],
  imageVolumes: [],
  engineArgs: [],
  pidsLimit: 10,
  memoryBytes: 20,
}

const PROXIES = [
  'HTTP_PROXY',
  'http_proxy',
  'HTTPS_PROXY',
  'https_proxy',
  'FTP_PROXY',
  'ftp_proxy',
].concat(['ALL_PROXY', 'all_proxy', 'NO_PROXY', 'no_proxy'])

void tap.test('the whole argv of a container under docker', async (t) => {
  t.strictSame(runArgs(SPEC, 'docker'), [
    'run',
    '-i',
    '--entrypoint=cat',
    '--rm',
    '--init',
    '--no-healthcheck',
    '--pull=never',
    '--log-driver=none',
    '--name=iterion-x',
    '--cidfile=/t/cid',
    '--label=a=1',
    '--label=b=x=y',
    '--network=none',
    '--hostname=sandbox',
    '--ipc=private',
    '--cap-drop=ALL',
    ...CAPABILITIES.map((name) => `--cap-add=${name}`),
    '--security-opt=no-new-privileges',
    '--security-opt=seccomp=/t/seccomp.json',
    '--pids-limit=10',
    '--memory=20',
    ...PROXIES.map((name) => `--env=${name}`),
    '--user=1000:1000',
    '--workdir=/w',
    '--tmpfs=/run/secrets:rw,nosuid,nodev,noexec,mode=0700,uid=5,gid=6,size=64',
    '--tmpfs=/home/u:rw,nosuid,nodev,exec,mode=0700,size=64',
    '--mount=type=bind,source=/w,target=/w',
    '--mount=type=bind,"source=/a,b",target=/c,readonly',
    'sha256:abc',
    '-',
  ])
})

void tap.test('podman gets the same in its own words', async (t) => {
  const [docker, podman] = [runArgs(SPEC, 'docker'), runArgs(SPEC, 'podman')]
  t.strictSame(
    podman.filter((word) => !docker.includes(word)),
    [
      '--entrypoint=/bin/sh',
      '--http-proxy=false',
      '--sysctl=net.ipv4.ip_unprivileged_port_start=0',
      '--tmpfs=/run/secrets:rw,nosuid,nodev,noexec,mode=0700,U,notmpcopyup,size=64',
      '--tmpfs=/home/u:rw,nosuid,nodev,exec,mode=0700,notmpcopyup,size=64',
      '-c',
      'cat -; exit',
    ],
  )
  t.notMatch(
    runArgs({ ...SPEC, network: 'bridge' }, 'podman').join(' '),
    /--sysctl/,
    'the namespace of a bridge is set up by podman',
  )
})

void tap.test('capabilities that lead to the network or past it are not given back', async (t) => {
  for (const name of ['NET_ADMIN', 'NET_RAW', 'SYS_ADMIN', 'SYS_PTRACE', 'MKNOD', 'SYS_MODULE']) {
    t.notOk(CAPABILITIES.includes(name), name)
  }
})

void tap.test('no limit is no flag, and the image runs as itself', async (t) => {
  const args = runArgs({ ...SPEC, pidsLimit: 0, memoryBytes: 0, user: '' }, 'docker')
  t.notMatch(args.join(' '), /--pids-limit|--memory|--user/)
})

void tap.test('what is said is one word, and cannot be read as a flag', async (t) => {
  const spec = { ...SPEC, user: '-v/:/h', workdir: '--privileged', name: '--x' }
  const args = runArgs(spec, 'docker')
  t.ok(args.includes('--user=-v/:/h'))
  t.ok(args.includes('--workdir=--privileged'))
  t.ok(args.includes('--name=--x'))
})

const EXEC: ExecSpec = {
  container: 'c1',
  user: '',
  workdir: '/w',
  envFile: undefined,
  interactive: false,
  tty: false,
  command: ['sh', '-c', 'x'],
}

void tap.test('the argv of a command, with no value of a variable in it', async (t) => {
  t.strictSame(execArgs(EXEC), ['exec', '--workdir=/w', 'c1', 'sh', '-c', 'x'])
  t.strictSame(
    execArgs({ ...EXEC, user: '1:2', envFile: '/t/env', interactive: true, tty: true }),
    ['exec', '-i', '-t', '--user=1:2', '--workdir=/w', '--env-file=/t/env', 'c1', 'sh', '-c', 'x'],
  )
})

void tap.test('a variable is taken away, and never handed over from this program', async (t) => {
  const spec = { ...SPEC, unsetEnv: ['OPENAI_BASE_URL', 'SSH_AUTH_SOCK', 'PATH', 'Path'] }
  const path = '--env=PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
  const added = (runtime: 'docker' | 'podman') =>
    runArgs(spec, runtime).filter((word) => !runArgs(SPEC, runtime).includes(word))
  t.strictSame(added('docker'), [
    '--env=OPENAI_BASE_URL',
    '--env=SSH_AUTH_SOCK=',
    path,
    '--env=Path',
  ])
  t.strictSame(added('podman'), [
    '--unsetenv=OPENAI_BASE_URL',
    '--unsetenv=SSH_AUTH_SOCK',
    path,
    '--unsetenv=Path',
  ])
})

void tap.test('words of a repository stand before the image', async (t) => {
  const words = runArgs({ ...SPEC, engineArgs: ['--shm-size=1g', '--cpus=2'] }, 'docker')
  t.strictSame(words.slice(-4), ['--shm-size=1g', '--cpus=2', SPEC.image, '-'])
})
