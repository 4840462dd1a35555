import { writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { NO_ENGINE, startOutside, TEST_IMAGE } from '../support/docker.ts'
import { type Desk, openDesk } from '../support/sandbox-run.ts'

// The case book's group 6: what programs in a sandbox find in their environment. test/case-book/coverage.ts says where the
// cases are that are not here.

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
curl -s -m 5 --noproxy '*' http://denied.test/; echo "direct $?"
`
    const { stdout } = await sealed(desk, script)
    t.match(stdout, /^git 128$/m)
    t.match(stdout, /^curl 403$/m, 'the proxy answers for a name that nobody resolves')
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

void tap.test(
  'E-04 the loopback of IPv6 is never asked of the proxy, whether it is there or not',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openSealedDesk(t)
    // Engines differ in whether a container without a network has ::1.
    const script = `
node -e "require('http').createServer((q, s) => s.end('own')).listen(8000, '::')" & server=$!
for try in 1 2 3 4 5 6 7 8 9 10; do curl -sf -m 1 http://127.0.0.1:8000/ > /dev/null && break; sleep 0.2; done
grep -q 0 /proc/sys/net/ipv6/conf/lo/disable_ipv6 && echo has
curl -sg -m 3 'http://[::1]:8000/'; echo " curl $?"
node -e "fetch('http://[::1]:8000/').then((a) => a.text()).then(console.log, (e) => console.log(e.cause.code))"
kill $server
`
    const { stdout, stderr } = await sealed(desk, script)
    t.match(stdout, /^(?:has\nown curl 0\nown| curl 7\nEADDRNOTAVAIL)\n$/, stderr)
    t.strictSame(desk.eventsOf('network_blocked'), [])
  },
)

void tap.test(
  'E-02 and E-17 an allowed name is reached, whether a program reads the variables or not',
  { skip: NO_ENGINE },
  async (t) => {
    const outside = await startOutside(t, 'allowed.test')
    const desk = openSealedDesk(t)
    writeFileSync(path.join(desk.workspace, 'ca.pem'), outside.certificate)
    const script = `
getent hosts allowed.test | cut -d ' ' -f 1
curl -sS -m 5 --cacert ca.pem https://allowed.test/by-curl
GIT_SSL_CAINFO=ca.pem git ls-remote https://allowed.test/by-git.git 2>&1 | grep -o 'not valid'
NODE_EXTRA_CA_CERTS=ca.pem node -e "fetch('https://allowed.test/by-node').then((a) => a.text()).then(console.log, (e) => console.log(e.cause.code))"
`
    const options = ['--resolve', `allowed.test:${outside.address}`]
    const { stdout, stderr } = await sealed(desk, script, options)
    const [address, byCurl, byGit, byNode] = stdout.split('\n')
    t.strictSame([address, byCurl, byGit], ['127.64.0.2', 'outside 0', 'not valid'], stderr)
    // Node.js 20 knows no switch for it, and goes by the name alone.
    t.equal(byNode, 'outside 0')
    t.strictSame(
      new Set(await outside.log()),
      new Set([
        'https GET /by-curl',
        'https GET /by-git.git/info/refs?service=git-upload-pack',
        'https GET /by-node',
      ]),
    )
  },
)

void tap.test(
  'E-09 and D-06 an advisory run names the proxy by an address, and no host by a name',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openSealedDesk(t)
    const names = 'HTTP_PROXY http_proxy HTTPS_PROXY https_proxy ALL_PROXY all_proxy'
    const script = `printenv ${names}; printenv NO_PROXY no_proxy; grep -c internal /etc/hosts`
    for (const [door, url] of [
      ['auto', /^http:\/\/127\.0\.0\.1:3128$/],
      ['advisory', /^http:\/\/agent:[0-9a-f]{64}@\d+\.\d+\.\d+\.\d+:\d+$/],
    ] as const) {
      const { stdout, stderr } = await sealed(desk, script, ['--door', door])
      const lines = stdout.trimEnd().split('\n')
      const urls = new Set(lines.slice(0, 6))
      t.equal(urls.size, 1, stderr)
      for (const one of urls) t.match(one, url)
      const direct = 'localhost,127.0.0.1,::1'
      t.strictSame(lines.slice(6), [direct, direct, '0'], 'no host.docker.internal')
    }
  },
)

void tap.test(
  'E-15 a variable comes in whole, or the run says before it starts that it is too large',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openSealedDesk(t)
    const args = ['run', '--env', 'BIG', '--image', TEST_IMAGE, '--', 'sh', '-c', 'echo ${#BIG}']
    const whole = await desk.run(args, { env: { BIG: 'x'.repeat(100_000) } })
    t.match(whole, { code: 0, stdout: '100000\n' })
    // More than the kernel gives a program in one variable.
    const env = { BIG: 'x'.repeat(300_000) }
    const text = JSON.stringify({
      name: 'w',
      sandbox: { image: TEST_IMAGE, env },
      nodes: [{ id: 'n', command: 'true' }],
    })
    writeFileSync(path.join(desk.workspace, 'workflow.yaml'), text)
    const inFile = await desk.run(['run', 'workflow.yaml'])
    t.match(inFile, { code: 125, stderr: /workflow\.yaml:1:\d+: BIG is too large: .* 128 KiB/ })
    t.strictSame(desk.leftovers(), [])
  },
)

void tap.test(
  'E-13 git:// fails within seconds, by name and by address',
  { skip: NO_ENGINE },
  async (t) => {
    // TEST-NET-1: an address that nobody has. Nothing leads out of the sandbox anyway.
    const script = `
for host in allowed.test 192.0.2.1; do
  git ls-remote git://$host/x.git 2>/dev/null; echo "git $? after \${SECONDS}s"
done`
    const desk = openSealedDesk(t)
    const { stdout } = await desk.runCommand(['--policy', 'policy.yaml'], ['bash', '-c', script])
    t.match(stdout, /^(?:git 128 after [0-4]s\n){2}$/)
  },
)
