import { GIT_IDENTITY } from '../clients/served-repository.ts'
import type { Program } from './program-runner.ts'
import { TLS_PORTS, type Place, type UnawareProgram, urlOf } from './unaware-program.ts'

/** Programs of git and of a database: what they speak is not, or not only, HTTP. */
export function sessionPrograms({ ca, at }: Place): UnawareProgram[] {
  const ssh = `ssh -F none -i ${at('key')} -o BatchMode=yes -o StrictHostKeyChecking=yes -o UserKnownHostsFile=${at('known_hosts')}`
  const cloned = (source: string, use: string, env: Record<string, string>): Program => ({
    words: ['sh', '-c', 'git clone -q "$1" "$2" && cat "$2/readme.txt"', 'sh', source, at(use)],
    env: { ...GIT_IDENTITY, ...env },
  })
  return [
    {
      name: 'git over https',
      version: { words: ['git', '--version'], pattern: /(\d\S+)/ },
      host: 'git.allowed.test',
      ...TLS_PORTS,
      shows: 'cloned through the proxy\n',
      ask: (host, port, use) =>
        cloned(`${urlOf(host, port)}/project.git`, `git-${use}`, { GIT_SSL_CAINFO: ca }),
    },
    {
      name: 'git over ssh',
      version: { words: ['ssh', '-V'], pattern: /^OpenSSH_(\S+?),? / },
      host: 'git.allowed.test',
      port: 22,
      otherPort: 22,
      shows: 'cloned through the proxy\n',
      ask: (host, port, use) =>
        cloned(`ssh://root@${host}:${port}/srv/git/project.git`, `ssh-${use}`, {
          GIT_SSH_COMMAND: ssh,
        }),
    },
    {
      name: 'psql',
      version: { words: ['psql', '--version'], pattern: /\) (\S+)/ },
      host: 'db.allowed.test',
      port: 5432,
      otherPort: 5432,
      shows: '42 t\n',
      ask: (host, port) => ({
        words: ['psql', '-X', '-A', '-t', '-F', ' '].concat(
          `host=${host} port=${port} user=tester dbname=postgres sslmode=verify-full sslrootcert=${ca}`,
          '-c',
          'select 6 * 7, ssl from pg_stat_ssl where pid = pg_backend_pid()',
        ),
      }),
    },
  ]
}
