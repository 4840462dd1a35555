/** What of a Dockerfile matters to who builds it behind a door. */
export interface DockerfileFacts {
  /** The images that its stages start from, in order; stages of its own and `scratch` are none. */
  readonly bases: readonly string[]
  /** Instructions that the engine itself would carry out over its own network, with their lines. */
  readonly fetches: readonly { readonly line: number; readonly text: string }[]
}

interface Instruction {
  readonly line: number
  readonly word: string
  readonly rest: string
}

/** Reads a Dockerfile as far as it tells where a build would go. `args` stand for what its ARG lines before FROM say. */
export function readDockerfile(
  text: string,
  args: Readonly<Record<string, string>>,
): DockerfileFacts {
  const known = new Map<string, string>()
  const stages = new Set<string>()
  const bases: string[] = []
  const fetches: { line: number; text: string }[] = []
  for (const { line, word, rest } of instructionsOf(text)) {
    if (word === 'ARG' && bases.length === 0 && stages.size === 0) {
      const [name = '', ...value] = rest.split('=')
      known.set(name.trim(), args[name.trim()] ?? unquoted(value.join('=')))
    }
    if (word === 'FROM') {
      const [image = '', as = '', stage = ''] = rest
        .split(/\s+/)
        .filter((part) => !part.startsWith('--'))
      const expanded = expand(image, known)
      if (!stages.has(expanded.toLowerCase()) && expanded !== 'scratch') bases.push(expanded)
      if (as.toUpperCase() === 'AS') stages.add(stage.toLowerCase())
    }
    const added = word === 'ONBUILD' ? (/^ADD\s+(.*)$/is.exec(rest)?.[1] ?? '') : rest
    if ((word === 'ADD' || (word === 'ONBUILD' && added !== '')) && mayFetch(added)) {
      fetches.push({ line, text: `${word} ${rest}`.slice(0, 200) })
    }
  }
  return { bases: [...new Set(bases)], fetches }
}

/**
 * True for what stands behind ADD if it names an address, or may: builders take quotes and escapes away and fill variables
 * in, so only plain paths are surely none.
 */
function mayFetch(words: string): boolean {
  const bare = words.replaceAll(/["'[\],]/g, '')
  return !/^[\w\s.\-/*?=+~:]*$/.test(bare) || bare.includes('://')
}

/** True for an instruction that an image carries out when something is built on it, and that may fetch. */
export function isFetchingTrigger(trigger: string): boolean {
  const words = /^\s*ADD\s([\s\S]*)$/i.exec(plainBlanks(trigger))?.[1]
  return words !== undefined && mayFetch(words)
}

/** What only the newer builder knows and that may lead past its network: another program that reads the file, a network. */
export function leavesNetwork(text: string): boolean {
  return /^\s*#\s*syntax\s*=/im.test(plainBlanks(text)) || /--network|--security/i.test(text)
}

/** Builders know more blanks than `\s` does. */
function plainBlanks(text: string): string {
  return text.replaceAll(/[\u{85}\p{Z}]/gu, ' ')
}

/** The instructions, each on one line as the builder reads it. */
function instructionsOf(text: string): Instruction[] {
  const lines = plainBlanks(text.replace(/^\u{feff}/u, '')).split(/\r?\n/)
  const escape = escapeOf(lines)
  const found: Instruction[] = []
  let open: { line: number; text: string } | undefined
  for (const [index, raw] of lines.entries()) {
    const isComment = /^\s*#/.test(raw)
    if (isComment || (raw.trim() === '' && open !== undefined)) continue
    const goesOn = new RegExp(`${escape === '\\' ? '\\\\' : '`'}[ \\t]*$`)
    const part = raw.replace(goesOn, '')
    open ??= { line: index + 1, text: '' }
    open = { line: open.line, text: open.text + part }
    if (goesOn.test(raw)) continue
    const [, word = '', rest = ''] = /^\s*(\S+)\s*([\s\S]*)$/.exec(open.text) ?? []
    if (word !== '') found.push({ line: open.line, word: word.toUpperCase(), rest: rest.trim() })
    open = undefined
  }
  return found
}

/** The character that joins lines: a directive at the top may name another. */
function escapeOf(lines: readonly string[]): '\\' | '`' {
  for (const line of lines) {
    const directive = /^\s*#\s*(\w+)\s*=\s*(\S+)\s*$/.exec(line)
    // Whatever is no directive ends them.
    if (!directive || !/^(?:syntax|escape|check)$/i.test(directive[1] ?? '')) return '\\'
    if (directive[1]?.toLowerCase() === 'escape') return directive[2] === '`' ? '`' : '\\'
  }
  return '\\'
}

function expand(text: string, known: ReadonlyMap<string, string>): string {
  return text.replaceAll(
    /\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))/g,
    (_, braced: string | undefined, fallback: string | undefined, plain: string | undefined) =>
      known.get(braced ?? plain ?? '') || fallback || '',
  )
}

function unquoted(text: string): string {
  return /^(["'])(.*)\1$/.exec(text.trim())?.[2] ?? text.trim()
}
