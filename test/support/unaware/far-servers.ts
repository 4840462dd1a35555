import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { Authority } from '../clients/authority.ts'
import { docker, uniqueName } from '../docker.ts'
import { CLIENT_IMAGE } from './client-image.ts'

const READY_MS = 60_000

/** Servers that are no part of this program: OpenSSH on port 22, PostgreSQL on 5432, in a container on a bridge of its own. */
export interface FarServers {
  readonly address: string
  /** The private key that opens port 22 to `root`. The database's user is `tester`, who needs no password. */
  readonly clientKey: string
  /** The host's key, as a line of known_hosts has it behind the name. */
  readonly hostKey: string
}

const START = `
set -e
git config --system safe.directory '*'
mkdir -p /run/sshd
install -m 600 /keys/host /run/sshd/host
/usr/sbin/sshd -f /dev/null -h /run/sshd/host -o PidFile=none -o StrictModes=no -o UsePAM=no -o PasswordAuthentication=no \
  -o AuthorizedKeysFile=/keys/client.pub
install -d -o nobody /srv/db /srv/run
install -o nobody -m 600 /keys/server.key /srv/db.key
install -o nobody -m 600 /keys/server.pem /srv/db.pem
bin=$(echo /usr/lib/postgresql/*/bin)
as_nobody() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
as_nobody "$bin/initdb" --no-sync -A trust -U tester -D /srv/db >/srv/run/log
echo 'hostssl all all all trust' >>/srv/db/pg_hba.conf
exec setpriv --reuid=65534 --regid=65534 --clear-groups "$bin/postgres" -D /srv/db -k /srv/run -F \
  -c listen_addresses='*' -c ssl=on -c ssl_key_file=/srv/db.key -c ssl_cert_file=/srv/db.pem
`

/**
 * Starts the servers; they go with the test.
 *
 * @param folder where the authority's files are, and keys are put
 * @param repositories a folder of repositories, which ssh finds as `/srv/git`
 */
export async function startFarServers(
  t: Test,
  { folder, repositories }: { readonly folder: string; readonly repositories: string },
  { caFile }: Authority,
): Promise<FarServers> {
  for (const name of ['host', 'client']) {
    const file = path.join(folder, name)
    execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', name, '-f', file])
  }
  const network = uniqueName('net')
  const container = uniqueName('far')
  t.teardown(async () => {
    await docker('rm', '-f', '-v', container).catch(() => undefined)
    await docker('network', 'rm', network).catch(() => undefined)
  })
  await docker('network', 'create', network)
  const binds = ['-v', `${path.dirname(caFile)}:/keys:ro`, '-v', `${repositories}:/srv/git:ro`]
  const place = ['--rm', '--init', '--name', container, '--network', network, ...binds]
  await docker('run', '-d', ...place, CLIENT_IMAGE, 'bash', '-c', START)
  const until = Date.now() + READY_MS
  const ask = ['exec', container, 'psql', '-h', '127.0.0.1', '-U', 'tester', '-c', '', 'postgres']
  while (
    !(await docker(...ask).then(
      () => true,
      () => false,
    ))
  ) {
    if (Date.now() > until) throw new Error(`no servers: ${await docker('logs', container)}`)
    await sleep(100)
  }
  const format = '{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}'
  return {
    address: await docker('inspect', '-f', format, container),
    clientKey: path.join(folder, 'client'),
    hostKey: readFileSync(path.join(folder, 'host.pub'), 'utf8').trim(),
  }
}
