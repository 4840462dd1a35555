/** Milliseconds of processor time that this process has used: a bound on it does not depend on what else runs. */
export function cpuTimeMs(): number {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}
