import tap from 'tap'
import { buildArgs, type BuildSpec } from '../../../src/sandbox/drivers/docker-build.ts'

const SPEC: BuildSpec = {
  input: {
    dockerfile: '/w/Dockerfile',
    context: '/w',
    args: { A: '1 2', HTTP_PROXY: 'http://other.test' },
    target: 'stage',
  },
  tag: 'iterion-egress-build:00',
  network: 'container:c0ffee',
  proxies: { HTTP_PROXY: 'http://127.0.0.1:3128' },
  memoryBytes: 20,
}

void tap.test("the whole argv of a build, by the engine's builder", async (t) => {
  t.strictSame(buildArgs(SPEC, 'classic'), [
    'build',
    '--force-rm',
    '--tag=iterion-egress-build:00',
    '--file=/w/Dockerfile',
    '--target=stage',
    '--network=container:c0ffee',
    '--memory=20',
    '--build-arg=A=1 2',
    '--build-arg=HTTP_PROXY=http://127.0.0.1:3128',
    '/w',
  ])
})

void tap.test('by the newer builder, and with little', async (t) => {
  const input = { ...SPEC.input, args: {}, target: undefined }
  const spec = { ...SPEC, input, proxies: {} }
  t.strictSame(buildArgs({ ...spec, network: 'none' }, 'buildx'), [
    'buildx',
    'build',
    '--load',
    '--tag=iterion-egress-build:00',
    '--file=/w/Dockerfile',
    '--network=none',
    '/w',
  ])
  t.strictSame(buildArgs({ ...spec, network: undefined, memoryBytes: 0 }, 'classic'), [
    'build',
    '--force-rm',
    '--tag=iterion-egress-build:00',
    '--file=/w/Dockerfile',
    '/w',
  ])
})
