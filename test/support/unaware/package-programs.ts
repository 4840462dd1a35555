import { TLS_PORTS, type Place, type UnawareProgram, urlOf } from './unaware-program.ts'

/** Programs that fetch packages. */
export function packagePrograms({ ca, at }: Place): UnawareProgram[] {
  return [
    {
      name: 'apt-get update',
      version: { words: ['apt-get', '--version'], pattern: /^apt (\S+)/ },
      host: 'archive.allowed.test',
      ...TLS_PORTS,
      shows: /Get:\d+ https:\/\/archive\.allowed\.test \.\/ Packages/,
      ask: (_host, _port, use) => ({
        words: ['apt-get', 'update'],
        env: { APT_CONFIG: at(`apt-${use}/apt.conf`) },
      }),
    },
    {
      name: 'apt-get update, Error-Mode=any',
      version: { words: ['apt-get', '--version'], pattern: /^apt (\S+)/ },
      host: 'archive.allowed.test',
      ...TLS_PORTS,
      // The packages are here already; what lists them says that they are the same.
      shows: /Get:\d+ https:\/\/archive\.allowed\.test \.\/ Release/,
      ask: (_host, _port, use) => ({
        words: ['apt-get', '-o', 'APT::Update::Error-Mode=any', 'update'],
        env: { APT_CONFIG: at(`apt-${use}/apt.conf`) },
      }),
    },
    {
      name: 'npm install',
      version: { words: ['npm', '--version'], pattern: /(\S+)/ },
      host: 'registry.allowed.test',
      ...TLS_PORTS,
      shows: /added 1 package/,
      ask: (host, port, use) => ({
        words: ['npm', '--prefix', at(`npm-${use}`), 'install', 'small-thing'],
        env: {
          NPM_CONFIG_REGISTRY: `${urlOf(host, port)}/`,
          NPM_CONFIG_CAFILE: ca,
          NPM_CONFIG_CACHE: at('npm-cache'),
          NPM_CONFIG_AUDIT: 'false',
          NPM_CONFIG_FUND: 'false',
          NPM_CONFIG_UPDATE_NOTIFIER: 'false',
          NPM_CONFIG_FETCH_RETRIES: '0',
        },
      }),
    },
    {
      name: 'pip install',
      version: { words: ['pip', '--version'], pattern: /^pip (\S+)/ },
      host: 'index.allowed.test',
      ...TLS_PORTS,
      shows: /Successfully installed small-thing-1\.2\.3/,
      ask: (host, port, use) => ({
        words: ['pip', 'install', '--no-cache-dir', '--retries', '1', '--cert', ca].concat(
          '--disable-pip-version-check',
          '--target',
          at(`pip-${use}`),
          '--index-url',
          `${urlOf(host, port)}/simple/`,
          'small-thing',
        ),
      }),
    },
  ]
}
