import { writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { type Desk, openDesk } from '../support/sandbox-run.ts'

// The case book's group 6: what programs in a sandbox find in their environment. E-07 is in test/escape, E-10 in
// test/policy/case-book.ts, E-16 and E-20 in test/case-book/http-requests.ts. E-06 and E-08 are for proxies that evaluate
// NO_PROXY or have peers to be reached directly: here is neither. E-12 needs the SOCKS door, which is not built.

const PROXY = 'http://127.0.0.1:3128'

function openSealedDesk(t: Parameters<typeof openDesk>[0]): Desk {
  const desk = openDesk(t)
  writeFileSync(path.join(desk.workspace, 'policy.yaml'), 'rules: [allowed.test]\n')
  return desk
}

const sealed = (desk: Desk, script: string, options: readonly string[] = []) =>
  desk.runCommand(['--policy', 'policy.yaml', ...options], ['sh', '-c', script])

void tap.test(
  'E-01, E-02 and E-09 both spellings, one value, and the switch of Node.js',
  { skip: NO_ENGINE },
  async (t) => {
    const { code, stdout } = await sealed(openSealedDesk(t), 'env | sort')
    t.equal(code, 0)
    const lines = new Set(stdout.split('\n'))
    for (const name of ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY']) {
      t.ok(lines.has(`${name}=${PROXY}`), name)
      t.ok(lines.has(`${name.toLowerCase()}=${PROXY}`), name.toLowerCase())
    }
    for (const name of ['NO_PROXY', 'no_proxy']) {
      t.ok(lines.has(`${name}=localhost,127.0.0.1,::1`), name)
    }
    t.ok(lines.has('NODE_USE_ENV_PROXY=1'))
    t.notMatch(stdout, /^NODE_OPTIONS=/m)
  },
)

void tap.test(
  'E-04 servers of the sandbox itself are reached directly',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openSealedDesk(t)
    const script = `
node -e "require('http').createServer((q, s) => s.end('own')).listen(8000, '0.0.0.0')" & server=$!
for try in 1 2 3 4 5 6 7 8 9 10; do curl -sf -m 1 http://127.0.0.1:8000/ > /dev/null && break; sleep 0.2; done
for host in localhost 127.0.0.1; do
  curl -sf -m 3 http://$host:8000/; echo
  node -e "fetch('http://$host:8000/').then((a) => a.text()).then(console.log)"
done
kill $server
`
    const { stdout, stderr } = await sealed(desk, script)
    t.equal(stdout, 'own\n'.repeat(4), stderr)
    t.strictSame(desk.eventsOf('network_blocked'), [], 'and never by the proxy')
  },
)

void tap.test(
  'E-13 and E-17 what does not speak to a proxy fails at once, what does needs no resolver',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openSealedDesk(t)
    const script = `
GIT_TRACE=0 git ls-remote git://allowed.test/x.git; echo "git $?"
curl -s -m 5 -o /dev/null -w 'curl %{http_code}\\n' http://denied.test/
curl -s -m 5 --noproxy '*' http://allowed.test/; echo "direct $?"
`
    const { stdout } = await sealed(desk, script)
    t.match(stdout, /^git 128$/m)
    t.match(stdout, /^curl 403$/m, 'the proxy answers for a name that nothing here resolves')
    t.match(stdout, /^direct 6$/m, 'and nobody else does')
  },
)

void tap.test(
  'E-15 and E-19 nothing of the caller comes in, and little reaches the engine',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openSealedDesk(t)
    const env = {
      BIG: 'x'.repeat(100_000),
      HTTP_PROXY: 'http://corp.test:8080',
      https_proxy: 'http://corp.test:8080',
      NO_PROXY: '*',
      NODE_OPTIONS: '--no-warnings',
      GITHUB_TOKEN: 'secret-of-the-caller',
    }
    const line = ['run', '--policy', 'policy.yaml', '--image', TEST_IMAGE, '--', 'env']
    const { code, stdout } = await desk.run(line, { env })
    t.equal(code, 0)
    t.notMatch(stdout, /corp\.test|xxxx|secret-of|NODE_OPTIONS/)
    t.match(stdout, /^NO_PROXY=localhost,127\.0\.0\.1,::1$/m)
    const elsewhere = await desk.run(line, { env: { DOCKER_HOST: 'tcp://203.0.113.1:2375' } })
    t.equal(elsewhere.code, 125)
    t.match(elsewhere.stderr, /DOCKER_HOST.*SANDBOX_ENGINE_UNREACHABLE/s)
  },
)
