import tap from 'tap'
import { EgressError, ERROR_MEANINGS, type ErrorCode } from '../../src/errors.ts'
import { Cancelled, failureRecord } from '../../src/sandbox/failure.ts'

const RESUMABLE = new Set<ErrorCode>([
  'NODE_FAILED',
  'RUN_ORPHANED',
  'SANDBOX_DOOR_FAILED',
  'SANDBOX_ENGINE_UNREACHABLE',
  'SANDBOX_IMAGE_UNAVAILABLE',
  'SANDBOX_LOST',
  'SANDBOX_SETUP_FAILED',
  'SANDBOX_SETUP_TIMEOUT',
])

void tap.test('every code has its place in the record, and is in its text', async (t) => {
  for (const code of Object.keys(ERROR_MEANINGS) as ErrorCode[]) {
    const record = failureRecord(new EgressError(code, 'why'))
    t.equal(record.failure_code, code)
    t.equal(record.error, `[${code}] why`)
    t.equal(record.status, RESUMABLE.has(code) ? 'failed_resumable' : 'failed', code)
    if (!RESUMABLE.has(code)) t.equal(record.retry_class, 'deterministic', code)
  }
})

void tap.test(
  'what was asked to end is cancelled; a fault of our own is told as one',
  async (t) => {
    t.strictSame(failureRecord(new Cancelled('SIGINT')), {
      status: 'cancelled',
      failure_code: 'RUN_CANCELLED',
      error: '[RUN_CANCELLED] ended by SIGINT',
      retry_class: null,
    })
    t.match(failureRecord(new TypeError('x')), { failure_code: 'INTERNAL', status: 'failed' })
    t.match(failureRecord('x'), { failure_code: 'INTERNAL', error: '[INTERNAL] x' })
  },
)
