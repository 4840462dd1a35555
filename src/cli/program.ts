import { main } from './main.ts'
import { systemIo } from './system-io.ts'

/** The program itself: what `bin` starts. */
export async function start(): Promise<void> {
  process.exitCode = await main(process.argv.slice(2), systemIo())
}
