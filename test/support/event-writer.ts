import { openEventLog } from '../../src/events/event-log.ts'

// A program for tests: writes so many records to a log, waits a little, and ends without closing it, or by closing it.
const [path = '', count = '1', ending = 'close'] = process.argv.slice(2)
const log = openEventLog(path, { closeTimeoutMs: 150 })
for (let i = 0; i < Number(count); i++) {
  log.write({ type: 'policy_rejected', data: { message: `${i} ${'x'.repeat(1_000)}` } })
}
setTimeout(() => {
  if (ending === 'exit') process.exit(7)
  void log.close()
}, 50)
