import { processDoor } from '../door/process-door.ts'
import { startProcessSeal } from '../door/process-seal.ts'
import { SEAL_ENV } from '../door/seal-words.ts'
import { EgressError } from '../errors.ts'
import { type Check, fail, pass, warn } from './doctor-check.ts'
import { trialPolicy } from './doctor-doors.ts'
import { boundOf, type Site } from './doctor-image.ts'

/**
 * Whether nodes can be sealed as processes of this machine: one is, with a command that does nothing. That takes no longer
 * than to look, and leaves nothing.
 */
export async function checkSeal(
  site: Pick<Site, 'host' | 'question' | 'timeoutMs' | 'end'>,
): Promise<Check> {
  const signal = boundOf(site)
  const { host, question } = site
  const { uid, gid } = host.user
  const policy = trialPolicy()
  const { resolver, now } = host
  const door = processDoor({ policy, resolver, audit: false, emit: () => undefined, now })
  let close = () => undefined as void
  try {
    const sealing = startProcessSeal({
      spawn: host.spawn,
      homes: [host.home],
      user: { caller: { uid, gid }, account: undefined },
      runtimeFolder: host.env['XDG_RUNTIME_DIR'],
      directory: question.options.workspace,
      command: ['true'],
      commandEnv: SEAL_ENV,
      stdio: ['ignore', 'ignore', 'ignore'],
    })
    close = () => sealing.close()
    signal.addEventListener('abort', close, { once: true })
    const seal = await door.open(sealing)
    close = () => seal.close()
    const code = await seal.run()
    if (code !== 0) return fail('seal', `a command in it ended with ${code}`, REMEDY)
    const { warnings, missing } = seal
    if (warnings.length === 0) return pass('seal', 'placed and proven')
    const remedy = missing === undefined ? 'tidy up there' : 'install iptables and iproute2'
    return warn('seal', `placed and proven, but ${warnings.join('; ')}`, remedy)
  } catch (error) {
    if (signal.aborted) {
      return fail('seal', `it was not there after ${site.timeoutMs / 1000} s`, REMEDY)
    }
    if (error instanceof EgressError) return fail('seal', error.message, REMEDY)
    throw error
  } finally {
    close()
    await door.close()
  }
}

const REMEDY = 'do as it says, or install docker or podman'
