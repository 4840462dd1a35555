import { main } from './main.ts'
import { closeDebugger } from '../debugger.ts'
import { OWN_FAILURE } from '../sandbox/drive-run.ts'
import { systemIo } from './system-io.ts'

/** The program itself: what `bin` starts. */
export async function start(): Promise<void> {
  closeDebugger()
  if (!hasFolder()) {
    process.stderr.write(
      'iterion-egress: the folder that it is started in is gone: change to another one\n',
    )
    process.exitCode = OWN_FAILURE
    return
  }
  process.exitCode = await main(process.argv.slice(2), systemIo())
}

/** False in a folder that was deleted: nothing can be found from there. */
function hasFolder(): boolean {
  try {
    return process.cwd() !== ''
  } catch {
    return false
  }
}
