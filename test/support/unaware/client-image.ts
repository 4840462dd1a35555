import { spawnSync } from 'node:child_process'
import { NO_USERS } from '../users.ts'

/** The image with programs that know of no proxy, and with servers for them. `scripts/client-image.sh` makes it. */
export const CLIENT_IMAGE = 'iterion-egress-clients:latest'

/** Why tests with {@link CLIENT_IMAGE} cannot run here, as root and as somebody else; false if they can. */
export const NO_CLIENTS: string | false = NO_USERS || whyNoClients()

function whyNoClients(): string | false {
  const { status } = spawnSync('docker', ['image', 'inspect', CLIENT_IMAGE])
  if (status !== 0) return `docker has no ${CLIENT_IMAGE}; scripts/client-image.sh makes it`
  return spawnSync('javac', ['--version']).error ? 'there is no javac here' : false
}
