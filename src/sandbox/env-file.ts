/** The variables of one run, in the two forms that a container takes them. */
export interface SplitEnvironment {
  /** The text of an `--env-file`. */
  readonly envFile: string
  /** A shell file with the variables that such a file cannot hold; empty if there are none. */
  readonly shellFile: string
}

/** The most that the kernel gives a program in one argument, or in one variable with its name, in bytes. */
export const MAX_WORD_BYTES = 131_071

/** True if a program can be started with this variable. */
export function fitsVariable(name: string, value: string): boolean {
  return Buffer.byteLength(`${name}=${value}`) <= MAX_WORD_BYTES
}

/** A line of an env file that engines read as it is written. */
const MAX_LINE = 16 * 1024

/**
 * Splits an environment. An env file holds one line a variable; what has line breaks, or is very long, goes the other
 * way. Nothing of it is ever an argument: arguments are for everybody on this machine to see.
 */
export function splitEnvironment(env: Readonly<Record<string, string>>): SplitEnvironment {
  const lines: string[] = []
  const exports: string[] = []
  for (const [name, value] of Object.entries(env)) {
    if (/[\r\n]/.test(value) || value.length > MAX_LINE) {
      exports.push(`export ${name}='${value.replaceAll("'", `'\\''`)}'\n`)
    } else {
      lines.push(`${name}=${value}\n`)
    }
  }
  return { envFile: lines.join(''), shellFile: exports.join('') }
}

/**
 * The variables that lead programs to the proxy, in both spellings, and the one without which Node.js 22 and 24 do not look
 * at them. Only loopback goes past it.
 */
export function proxyVariables(proxyUrl: string): Record<string, string> {
  const past = 'localhost,127.0.0.1,::1'
  return {
    HTTP_PROXY: proxyUrl,
    HTTPS_PROXY: proxyUrl,
    ALL_PROXY: proxyUrl,
    NO_PROXY: past,
    http_proxy: proxyUrl,
    https_proxy: proxyUrl,
    all_proxy: proxyUrl,
    no_proxy: past,
    NODE_USE_ENV_PROXY: '1',
  }
}
