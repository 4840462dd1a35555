import { isEnvName } from '../workflow-schema.ts'

/** What `runArgs` asks for beyond what a sandbox does anyway. */
export interface RunArgsEffect {
  readonly env: Readonly<Record<string, string>>
  readonly user: string | undefined
  /** Words for the engine, each checked. */
  readonly engineArgs: readonly string[]
  /** Flags that change nothing here, with the reason. */
  readonly ignored: readonly {
    readonly index: number
    readonly flag: string
    readonly reason: string
  }[]
  /** Flags that are refused. */
  readonly refused: readonly {
    readonly index: number
    readonly flag: string
    readonly reason: string
  }[]
}

type Kind =
  /** Takes no value, changes nothing here. */
  | { readonly switch: string }
  /** Takes a value, changes nothing here. */
  | { readonly without: string }
  /** Takes a value that has this form, and is handed on. */
  | { readonly form: RegExp }
  | 'env'
  | 'user'

const AMOUNT = /^[1-9]\d{0,12}(?:b|[kmg](?:i?b)?)?$/i
const OURS = 'a run decides that itself'
const BOUNDS = 'the operator says how much: ITERION_SANDBOX_MEMORY, ITERION_SANDBOX_PIDS'

/** The flags that are taken, by their long names. Whatever is not here is refused. */
const FLAGS: Readonly<Record<string, Kind>> = {
  init: { switch: 'a sandbox has such a process anyway' },
  rm: { switch: 'a sandbox is always removed' },
  interactive: { switch: OURS },
  tty: { switch: OURS },
  detach: { switch: OURS },
  'no-healthcheck': { switch: 'no health check ever runs' },
  name: { without: OURS },
  label: { without: 'labels tell the reaper whose a container is' },
  'cap-drop': { without: 'every right is dropped but those that package managers need' },
  'stop-timeout': { without: OURS },
  'stop-signal': { without: OURS },
  pull: { without: OURS },
  workdir: { without: 'workspaceFolder says where commands start' },
  memory: { without: BOUNDS },
  'memory-swap': { without: BOUNDS },
  'memory-reservation': { without: BOUNDS },
  'pids-limit': { without: BOUNDS },
  hostname: { form: /^[A-Za-z0-9](?:[A-Za-z0-9-]{0,62})$/ },
  'shm-size': { form: AMOUNT },
  cpus: { form: /^\d{1,4}(?:\.\d{1,3})?$/ },
  'cpu-shares': { form: /^\d{1,6}$/ },
  ulimit: { form: /^(?:nofile|core|stack|data|fsize)=\d{1,12}(?::\d{1,12})?$/ },
  env: 'env',
  user: 'user',
}

const SHORT: Readonly<Record<string, string>> = {
  i: 'interactive',
  t: 'tty',
  d: 'detach',
  h: 'hostname',
  c: 'cpu-shares',
  l: 'label',
  m: 'memory',
  w: 'workdir',
  e: 'env',
  u: 'user',
}

/** Why the flags are refused that people write most often. */
const REASONS: readonly (readonly [names: readonly string[], reason: string])[] = [
  [['privileged', 'cap-add', 'device', 'gpus'], 'it would give rights over the host'],
  [['security-opt', 'apparmor', 'userns', 'cgroupns'], 'it would take a fence away'],
  [['network', 'net', 'network-alias', 'ip', 'ip6', 'link'], 'the policy is the one way out'],
  [['add-host', 'dns', 'dns-option', 'dns-search'], 'names are resolved behind the proxy'],
  [['publish', 'publish-all', 'expose', 'p', 'P'], 'nobody outside talks to a sandbox'],
  [['pid', 'ipc', 'uts', 'cgroup-parent'], 'it would share a namespace of the host'],
  [['volume', 'mount', 'tmpfs', 'volumes-from', 'v'], 'mounts stand under the key mounts'],
  [['env-file'], 'it would read a file of the host'],
]

/** Reads `runArgs` as docker's command line does: `--flag=value`, `--flag value`, `-fvalue`, `-f value`, grouped switches. */
export function readRunArgs(words: readonly string[]): RunArgsEffect {
  const env: Record<string, string> = {}
  const engineArgs: string[] = []
  const ignored: { index: number; flag: string; reason: string }[] = []
  const refused: { index: number; flag: string; reason: string }[] = []
  let user: string | undefined
  let next = 0

  const take = (index: number, flag: string, name: string, attached: string | undefined) => {
    const kind = Object.hasOwn(FLAGS, name) ? FLAGS[name] : undefined
    const refuse = (reason: string) => void refused.push({ index, flag, reason })
    if (kind === undefined) {
      refuse(reasonFor(name))
      // What stands behind it may be its value: that is no problem of its own.
      if (attached === undefined && words[next]?.startsWith('-') === false) next += 1
      return
    }
    if (typeof kind === 'object' && 'switch' in kind) {
      const isBoolean = attached === undefined || /^(?:true|false|1|0|t|f)$/i.test(attached)
      if (isBoolean) ignored.push({ index, flag, reason: kind.switch })
      else refuse('it takes true or false')
      return
    }
    const value = attached ?? words[next++]
    if (value === undefined) refuse('its value is missing')
    else if (kind === 'env') takeVariable(value, refuse)
    else if (kind === 'user') user = value
    else if ('without' in kind) ignored.push({ index, flag, reason: kind.without })
    else if (kind.form.test(value)) engineArgs.push(`--${name}=${value}`)
    else refuse(`its value ${JSON.stringify(value)} has another form`)
  }
  const takeVariable = (text: string, refuse: (reason: string) => void) => {
    const equals = text.indexOf('=')
    const name = equals === -1 ? text : text.slice(0, equals)
    if (!isEnvName(name)) refuse(`${JSON.stringify(name)} is no name of a variable`)
    else if (equals === -1) refuse(`it would take the value of ${name} from the host`)
    else env[name] = text.slice(equals + 1)
  }

  while (next < words.length) {
    const index = next
    const word = words[next++] ?? ''
    const long = /^--([^=]+)(?:=([\s\S]*))?$/.exec(word)
    if (long) take(index, `--${long[1]}`, long[1] ?? '', long[2])
    else if (/^-[^-]/.test(word)) takeShort(index, word)
    else refused.push({ index, flag: word, reason: 'it is no flag' })
  }
  return { env, user, engineArgs, ignored, refused }

  function takeShort(index: number, word: string): void {
    for (let at = 1; at < word.length; at += 1) {
      const letter = word[at] ?? ''
      const name = SHORT[letter] ?? letter
      const kind = Object.hasOwn(FLAGS, name) ? FLAGS[name] : undefined
      const isSwitch = typeof kind === 'object' && 'switch' in kind
      if (isSwitch && word[at + 1] !== '=') {
        take(index, `-${letter}`, name, undefined)
        continue
      }
      // The rest of the word is its value; an equals sign in front is none of it, unless it stands alone.
      const rest = word.slice(at + 1)
      take(index, `-${letter}`, name, rest === '' ? undefined : rest.replace(/^=(?=.)/s, ''))
      return
    }
  }
}

function reasonFor(name: string): string {
  return (
    REASONS.find(([names]) => names.includes(name))?.[1] ??
    'it is not among the flags that are taken'
  )
}
