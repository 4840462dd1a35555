import tap from 'tap'
import { compilePolicy } from '../../src/policy/compile.ts'
import { DEFAULT_LIMITS } from '../../src/proxy/limits.ts'
import { startWorkers } from '../../src/workers/start-workers.ts'
import { ruleOf } from '../support/policy-of.ts'

// Workers that do serve are in test/integration.

const PARTS = { mode: 'allowlist', rules: [ruleOf('allowed.test', 1)] } as const
const OPTIONS: Parameters<typeof startWorkers>[0] = {
  count: 2,
  program: new URL('../fixtures/worker.js', import.meta.url).pathname,
  limits: DEFAULT_LIMITS,
  setup: {
    listen: { host: '127.0.0.1', port: 0 },
    parts: PARTS,
    digest: compilePolicy(PARTS).digest,
    pseudonym: 'me',
    token: undefined,
    insecureNoAuth: false,
    limits: {},
    resolve: [],
    audit: false,
    relay: undefined,
  },
  onLoss: () => undefined,
}

void tap.test('workers that end before they serve are not started again', async (t) => {
  process.env['WORKER_CODE'] = '3'
  t.teardown(() => delete process.env['WORKER_CODE'])
  await t.rejects(startWorkers(OPTIONS), {
    code: 'WORKERS_LOST',
    message: /^worker \d+ ended with code 3 before it served$/,
  })
})

void tap.test('a worker that does not come to serve is ended', async (t) => {
  const limits = { ...DEFAULT_LIMITS, drainTimeoutMs: 0 }
  await t.rejects(startWorkers({ ...OPTIONS, limits, startTimeoutMs: 300 }), {
    code: 'WORKERS_LOST',
    message: /^worker \d+ was ended by SIGKILL before it served$/,
  })
})
