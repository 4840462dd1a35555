/** Where a proxy is asked whether it serves. */
export interface HealthTarget {
  readonly host: string
  readonly port: number
  readonly token: string | undefined
}

const USUAL_PORT = 3128

/**
 * Where the proxy listens that was started with these words, as its own machine reaches it.
 *
 * @param words a command line of `serve`
 * @throws {Error} if a file with a token cannot be read; for port 0
 */
export function whereServed(
  words: readonly string[],
  env: Readonly<Partial<Record<string, string>>>,
  readFile: (path: string) => string,
): HealthTarget {
  const listen = valueOf(words, '--listen') ?? ''
  const [, named = '', digits = ''] = /^\[?(.*?)\]?:(\d+)$/.exec(listen) ?? []
  const file = valueOf(words, '--token-file')
  const token =
    valueOf(words, '--token') ??
    (file === undefined ? env['ITERION_EGRESS_TOKEN'] : readFile(file).trim())
  if (digits !== '' && Number(digits) === 0) {
    throw new Error('port 0 is chosen by the system, and this check does not learn which it is')
  }
  // On `::` it serves IPv4 too, which every container has.
  const host = ['', '0.0.0.0', '::'].includes(named) ? '127.0.0.1' : named
  return { host, port: digits === '' ? USUAL_PORT : Number(digits), token }
}

/** The value of an option, behind a space or a sign of equality; the last one counts. */
function valueOf(words: readonly string[], option: string): string | undefined {
  let value: string | undefined
  for (const [i, word] of words.entries()) {
    if (word === option) value = words[i + 1]
    else if (word.startsWith(`${option}=`)) value = word.slice(option.length + 1)
  }
  return value
}
