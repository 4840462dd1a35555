import { createHash, X509Certificate } from 'node:crypto'
import { page } from '../clients/fetches.ts'
import { type FarSide, WEB } from './far-side.ts'
import { type Place, TLS_PORTS, type UnawareProgram, urlOf } from './unaware-program.ts'

const FETCH = `fetch(process.argv[1]).then((answer) => answer.text()).then((text) => process.stdout.write(text))`
const SHOWN = page(WEB, '/file')

/** Programs that fetch a page, or talk with a server for pages. */
export function webPrograms({ workspace, ca, at }: Place, far: FarSide): UnawareProgram[] {
  return [
    {
      name: 'curl --http2',
      version: { words: ['curl', '--version'], pattern: /^curl (\S+)/ },
      host: 'h2.allowed.test',
      ...TLS_PORTS,
      shows: `${page('h2.allowed.test', '/file')}2`,
      ask: (host, port) => ({
        words: ['curl', '-sS', '--http2', '--cacert', ca, '-w', '%{http_version}'].concat(
          `${urlOf(host, port)}/file`,
        ),
      }),
    },
    {
      name: 'Node fetch',
      version: { words: ['node', '--version'], pattern: /^v(\S+)/ },
      host: WEB,
      ...TLS_PORTS,
      shows: SHOWN,
      ask: (host, port) => ({
        words: ['node', '-e', FETCH, `${urlOf(host, port)}/file`],
        env: { NODE_EXTRA_CA_CERTS: ca },
      }),
    },
    {
      name: 'Node WebSocket',
      version: { words: ['node', '--version'], pattern: /^v(\S+)/ },
      host: WEB,
      ...TLS_PORTS,
      shows: 'one\ntwo\nthree\n',
      ask: (host, port) => ({
        // Node.js 20 has it behind this flag, and later versions without it.
        words: ['node', '--no-warnings', '--experimental-websocket', at('converse.js')].concat(
          `wss${urlOf(host, port).slice('https'.length)}/chat`,
        ),
        env: { NODE_EXTRA_CA_CERTS: ca },
      }),
    },
    {
      name: 'Java HttpClient',
      version: { words: ['java', '--version'], pattern: /^\S+ (\S+)/ },
      host: WEB,
      ...TLS_PORTS,
      shows: SHOWN,
      ask: (host, port) => ({
        words: ['java', '-XX:-UsePerfData', '-XX:TieredStopAtLevel=1', '-cp', workspace].concat(
          'Fetch',
          `${urlOf(host, port)}/file`,
          ca,
        ),
      }),
    },
    {
      name: 'Python requests',
      version: {
        words: ['python3', '-c', 'import requests; print(requests.__version__)'],
        pattern: /(\S+)/,
      },
      host: WEB,
      ...TLS_PORTS,
      shows: SHOWN,
      ask: (host, port) => ({
        words: ['python3', '-B', at('fetch_untrusting.py'), `${urlOf(host, port)}/file`, ca],
      }),
    },
    {
      name: 'Chromium',
      version: { words: ['chromium', '--version'], pattern: /^Chromium (\S+)/ },
      host: WEB,
      ...TLS_PORTS,
      // It runs what the page brings, and reads another host for it.
      shows: /<p id="own">run<\/p><p id="other">\/other of api\.allowed\.test<\/p>/,
      ask: (host, port, use) => ({
        words: ['chromium', '--headless', '--no-sandbox', '--disable-gpu', '--dump-dom'].concat(
          '--disable-dev-shm-usage',
          `--user-data-dir=${at(`chromium-${use}`)}`,
          `--ignore-certificate-errors-spki-list=${keyDigest(far.authority.cert)}`,
          '--virtual-time-budget=5000',
          `${urlOf(host, port)}/browsed`,
        ),
      }),
    },
  ]
}

/** The digest of a certificate's public key, as Chromium takes it. */
function keyDigest(cert: string): string {
  const key = new X509Certificate(cert).publicKey.export({ type: 'spki', format: 'der' })
  return createHash('sha256').update(key).digest('base64')
}
