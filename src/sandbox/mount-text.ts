import type { MountSpec } from './spec.ts'

/** What is wrong with the text of a mount, and how it would be written. */
interface MountFault {
  readonly message: string
  readonly correction?: string
}

type Option = 'source' | 'target' | 'readonly' | 'type'

/** What docker calls the options of a mount, in all their spellings. */
export const OPTION_NAMES: ReadonlyMap<string, Option> = new Map([
  ['type', 'type'],
  ['source', 'source'],
  ['src', 'source'],
  ['target', 'target'],
  ['dst', 'target'],
  ['destination', 'target'],
  ['readonly', 'readonly'],
  ['ro', 'readonly'],
])

/** The forms that docker knows: `SOURCE:TARGET[:ro|:rw]`, or options joined by commas. */
const LONG_FORM = /^(?:type|source|src|target|dst|destination|readonly|ro)(?:=|,)/

/** Reads a mount in either of docker's forms. Only binds: a named volume is nothing that a run could hand back. */
export function parseMountText(text: string): MountSpec | MountFault {
  return LONG_FORM.test(text) ? parseOptions(text) : parseShort(text)
}

function parseShort(text: string): MountSpec | MountFault {
  const [source = '', target = '', access = 'rw', ...rest] = text.split(':')
  if (rest.length > 0 || source === '' || target === '') {
    return {
      message: 'a mount is SOURCE:TARGET, SOURCE:TARGET:ro, or a map with source and target',
    }
  }
  if (access !== 'ro' && access !== 'rw') {
    return {
      message: `the option ${JSON.stringify(access)} of a mount is not known; there are ro and rw`,
    }
  }
  if (!/^[./~]/.test(source)) {
    return {
      message: `${JSON.stringify(source)} names a volume, and there are only binds`,
      correction: JSON.stringify(`./${text}`),
    }
  }
  return { source, target, readOnly: access === 'ro' }
}

function parseOptions(text: string): MountSpec | MountFault {
  const found = new Map<Option, string>()
  for (const part of text.split(',')) {
    const [name = '', ...rest] = part.split('=')
    const option = OPTION_NAMES.get(name)
    if (option === undefined) {
      return {
        message: `the option ${JSON.stringify(name)} of a mount is not known; there are type, source, target, readonly`,
      }
    }
    if (found.has(option)) return { message: `the option ${option} of a mount is given twice` }
    found.set(option, rest.length === 0 && option === 'readonly' ? 'true' : rest.join('='))
  }
  const source = found.get('source') ?? ''
  const target = found.get('target') ?? ''
  const access = found.get('readonly') ?? 'false'
  if ((found.get('type') ?? 'bind') !== 'bind') return { message: 'a mount has the type bind' }
  if (source === '' || target === '') return { message: 'a mount needs a source and a target' }
  if (!/^(?:true|false|1|0)$/.test(access)) {
    return { message: `readonly is ${JSON.stringify(access)}; expected true or false` }
  }
  return { source, target, readOnly: access === 'true' || access === '1' }
}
