/**
 * Takes SIGUSR1 from Node.js, which opens its debugger on it: to everybody on this machine, who then does what this process
 * may do. SIGUSR2 asks `serve` how it stands, so the other one is soon sent by mistake.
 */
export function closeDebugger(): void {
  process.on('SIGUSR1', () => undefined)
}
