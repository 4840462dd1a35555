import { SEAL_ENV, type SealAccount, type SealUser } from '../door/seal-words.ts'
import { runProgram } from '../door/spawn.ts'
import { EgressError } from '../errors.ts'
import type { SandboxHost } from '../sandbox/host.ts'

/** Who `wrap` runs its command as. */
interface AccountOptions {
  readonly user?: string
  readonly asRoot?: boolean
}

/** Who root's commands are unless somebody is named. */
const NOBODY = 'nobody'

/** An account with the folder that its programs take for home. */
export interface WrapUser extends SealUser {
  /** Variables that say who the command is; empty for the caller. */
  readonly env: Readonly<Record<string, string>>
}

/**
 * Who the command runs as: the caller; for root `nobody` or whom it names, or root by its own word.
 *
 * @throws {EgressError} USAGE
 */
export async function findWrapUser(host: SandboxHost, options: AccountOptions): Promise<WrapUser> {
  const { user, asRoot = false } = options
  const { uid, gid } = host.user
  const caller = { uid, gid }
  if (uid !== 0) {
    if (user === undefined && !asRoot) return { caller, account: undefined, env: {} }
    throw new EgressError('USAGE', '--user and --as-root are for root: the command runs as you')
  }
  if (asRoot && user === undefined) return { caller, account: undefined, env: {} }
  if (asRoot) throw new EgressError('USAGE', 'give either --user or --as-root')
  const { home, ...account } = await findAccount(host, user ?? NOBODY)
  const { name } = account
  return {
    caller,
    account,
    env: name === undefined ? {} : { HOME: home, USER: name, LOGNAME: name },
  }
}

async function findAccount(
  { spawn }: SandboxHost,
  word: string,
): Promise<SealAccount & { readonly home: string }> {
  const fail = (why: string) => new EgressError('USAGE', `--user ${JSON.stringify(word)}: ${why}`)
  if (!/^\w[\w.@-]*\$?$/.test(word)) throw fail('that is no name of a user')
  const { code, stdout } = await runProgram(spawn, 'getent', ['passwd', word], { env: SEAL_ENV })
  // `name:password:uid:gid:words:home:shell`
  const [name = '', , uid = '', gid = '', , home = '/'] = stdout.trimEnd().split(':')
  if (code !== 0 || !/^\d+$/.test(uid) || !/^\d+$/.test(gid)) throw fail('there is no such user')
  if (Number(uid) === 0) throw fail('that is root; --as-root says that it is meant')
  return { uid: Number(uid), gid: Number(gid), name, home }
}
