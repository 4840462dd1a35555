type Variables = Readonly<Partial<Record<string, string>>>

/** What goes in front of a name on the way. */
const CARRIED = '_carried_'

/** Those that a shell sets itself, or lets nobody set. */
const OF_THE_SHELL = new Set([
  'OPTIND',
  'PPID',
  'UID',
  'EUID',
  'SHELLOPTS',
  'BASHOPTS',
  'BASH_VERSINFO',
])

/** The names of an environment that a shell can set. No other is carried. */
function namesOf(env: Variables): string[] {
  const isCarried = (name: string) =>
    /^[A-Za-z_]\w*$/.test(name) && !name.startsWith(CARRIED) && !OF_THE_SHELL.has(name)
  return Object.keys(env).filter((name) => env[name] !== undefined && isCarried(name))
}

/**
 * The environment of the programs that a sealed command starts through. They may more than the command may, so nothing of
 * its environment may reach them by its own name: a library that is loaded first, or a folder of programs, would be loaded
 * there.
 *
 * @param own what those programs need
 * @param env the whole environment of the command
 */
export function carriedBeside(own: Variables, env: Variables): Record<string, string> {
  const carried = namesOf(env).map((name) => [`${CARRIED}${name}`, env[name]] as const)
  return Object.fromEntries([...Object.entries(own), ...carried]) as Record<string, string>
}

/**
 * The lines by which a shell makes the environment the command's own, and nothing but that.
 *
 * @param own the names of what the programs before needed
 * @param env the whole environment of the command
 */
export function unpackingLines(own: readonly string[], env: Variables): string {
  const names = namesOf(env)
  // A shell finds the command by it.
  const dropped = own.filter((name) => !names.includes(name) && name !== 'PATH')
  const set = names.map((name) => `export ${name}="$${CARRIED}${name}"; unset ${CARRIED}${name}`)
  return [...dropped.map((name) => `unset ${name}`), ...set].join('\n')
}
