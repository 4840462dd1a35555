import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, connect, createServer } from 'node:net'
import path from 'node:path'
import tap from 'tap'
import { runCli } from '../support/run-cli.ts'
import { BIN, eventsIn, serve, waitFor } from '../support/serve-process.ts'

function ask(port: number, text: string): Promise<string> {
  return new Promise((resolve, reject) => {
    let answer = ''
    const socket = connect(port, '127.0.0.1', () => socket.write(text))
    socket.on('data', (chunk) => (answer += chunk.toString('latin1')))
    socket.on('error', reject)
    socket.on('end', () => socket.end())
    socket.on('close', () => resolve(answer))
  })
}

void tap.test(
  'serve says where it is, serves, records, and drains on SIGTERM with code 0',
  async (t) => {
    const dir = t.testdir()
    const events = path.join(dir, 'events.jsonl')
    const upstream = createHttpServer((_request, response) => response.end('hello'))
    upstream.listen(0, '127.0.0.1')
    await once(upstream, 'listening')
    t.teardown(() => upstream.close())
    const { port: upstreamPort } = upstream.address() as AddressInfo
    const resolve = `allowed.test:80:127.0.0.1:${upstreamPort}`
    const served = await serve(t, [
      '--rule',
      'allowed.test',
      '--events',
      events,
      '--audit',
      '--run-id',
      'r1',
      '--resolve',
      resolve,
    ])
    t.match(served.ready, {
      listen: /^127\.0\.0\.1:\d+$/,
      proxy_url: `http://${served.ready.listen}`,
    })
    t.equal(statSync(served.readyFile).mode & 0o777, 0o600)
    // The ready file comes before the text for people.
    await waitFor(() => served.output().stdout.includes('Ctrl-C') || undefined)
    t.match(served.output().stdout, `HTTPS_PROXY=http://${served.ready.listen}`)
    t.match(
      served.output().stdout,
      /why\? +node \S*bin\/iterion-egress\.js explain --rule allowed\.test https:/,
    )
    t.match(served.output().stderr, /warning: no token/)
    const allowed = await ask(
      served.port,
      'GET http://allowed.test/ HTTP/1.1\r\nHost: allowed.test\r\nConnection: close\r\n\r\n',
    )
    t.match(allowed, /^HTTP\/1\.1 200 OK[\s\S]*hello$/)
    const denied = await ask(
      served.port,
      'CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n\r\n',
    )
    t.match(denied, /^HTTP\/1\.1 403 egress denied: no rule allows evil\.test:443\r\n/)
    t.equal(await served.end(), 0)
    const records = eventsIn(events)
    t.strictSame(
      records.map(({ seq }) => seq),
      [1, 2, 3],
    )
    t.strictSame(
      records.map(({ type }) => type),
      ['policy_loaded', 'network_allowed', 'network_blocked'],
    )
    t.match(records[1], { run_id: 'r1', data: { host: 'allowed.test', address: '127.0.0.1' } })
  },
)

void tap.test(
  'with a token the ready file has the whole URL, and nothing that is printed has the token',
  async (t) => {
    const dir = t.testdir()
    const events = path.join(dir, 'events.jsonl')
    const served = await serve(t, ['--rule', 'allowed.test', '--events', events], {
      env: { ITERION_EGRESS_TOKEN: 'TOK123' },
    })
    t.equal(served.ready.proxy_url, `http://agent:TOK123@${served.ready.listen}`)
    const head = 'CONNECT evil.test:443 HTTP/1.1\r\n'
    t.match(
      await ask(served.port, `${head}\r\n`),
      /^HTTP\/1\.1 407 Proxy Authentication Required\r\n/,
    )
    t.match(
      await ask(served.port, `${head}Proxy-Authorization: Bearer TOK123\r\n\r\n`),
      /^HTTP\/1\.1 403 /,
    )
    t.match(
      await ask(served.port, `${head}Proxy-Authorization: Bearer TOK124\r\n\r\n`),
      /^HTTP\/1\.1 407 /,
    )
    t.equal(await served.end('SIGINT'), 0)
    const { stdout, stderr } = served.output()
    t.notMatch(stdout + stderr + readFileSync(events, 'utf8'), /TOK12/)
  },
)

void tap.test(
  'events go to standard output with -, text for people then to standard error',
  async (t) => {
    const served = await serve(t, ['--rule', 'allowed.test', '--events', '-'])
    await ask(served.port, 'CONNECT evil.test:443 HTTP/1.1\r\n\r\n')
    t.equal(await served.end(), 0)
    const { stdout, stderr } = served.output()
    const types = stdout
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line).type)
    t.strictSame(types, ['policy_loaded', 'network_blocked'])
    t.match(stderr, /listens on/)
  },
)

void tap.test('SIGTERM ends an open tunnel when the drain time is over', async (t) => {
  const upstream = createServer((socket) => socket.on('error', () => undefined))
  upstream.listen(0, '127.0.0.1')
  await once(upstream, 'listening')
  t.teardown(() => upstream.close())
  const { port } = upstream.address() as AddressInfo
  const dir = t.testdir()
  const served = await serve(t, [
    '--rule=allowed.test:22',
    `--resolve=allowed.test:22:127.0.0.1:${port}`,
    '--limit=drainTimeoutMs=100',
    `--events=${path.join(dir, 'e')}`,
  ])
  const client = connect(served.port, '127.0.0.1', () =>
    client.write('CONNECT allowed.test:22 HTTP/1.1\r\n\r\n'),
  )
  client.on('error', () => undefined)
  await once(client, 'data')
  const closed = new Promise((resolve) => client.once('close', resolve))
  t.equal(await served.end(), 0)
  await closed
  t.match(eventsIn(path.join(dir, 'e')).at(-1), { type: 'tunnel_closed', data: { cause: 'drain' } })
})

void tap.test('a policy file that does not load stops the start', async (t) => {
  const file = path.join(t.testdir(), 'policy.yaml')
  writeFileSync(file, 'rules:\n  - !evil.test good.test\n')
  const { code, stderr } = await runCli(['serve', '--policy', file, '--listen', '127.0.0.1:0'])
  t.equal(code, 3)
  t.match(stderr, /YAML tags are not allowed/)
})

void tap.test('a port that is taken is told', async (t) => {
  const taken = createServer()
  taken.listen(0, '127.0.0.1')
  await once(taken, 'listening')
  t.teardown(() => taken.close())
  const { port } = taken.address() as AddressInfo
  const { code, stderr } = await runCli([
    'serve',
    '--rule',
    'a.test',
    '--listen',
    `127.0.0.1:${port}`,
  ])
  t.equal(code, 4)
  t.match(stderr, `cannot listen on 127.0.0.1:${port}: the port is taken`)
})

void tap.test('asked by SIGUSR2 it says how it stands, and how it reads', async (t) => {
  for (const [args, relay] of [
    [[], { kind: 'pooled', why: /has what it takes/ }],
    [['--relay', 'streams'], { kind: 'streams', why: 'asked for' }],
  ] as const) {
    const served = await serve(t, ['--rule', 'a.test', ...args])
    await ask(served.port, 'CONNECT b.test:443 HTTP/1.1\r\nHost: b.test:443\r\n\r\n')
    served.child.kill('SIGUSR2')
    const line = await waitFor(() => /^\{.*\}$/m.exec(served.output().stderr)?.[0])
    t.match(JSON.parse(line), { tunnels: 0, denied: { 'no-rule': 1 }, relay })
    t.equal(await served.end(), 0)
  }
})

void tap.test('a ready file that cannot be written ends the start', async (t) => {
  const file = path.join(t.testdir(), 'no', 'such', 'folder')
  const { code, stderr } = await runCli([
    'serve',
    '--rule',
    'a.test',
    '--listen',
    '127.0.0.1:0',
    '--ready-file',
    file,
  ])
  t.equal(code, 4)
  t.match(stderr, /the ready file cannot be written/)
})

void tap.test('a reader that has seen enough is no failure', async (t) => {
  const child = spawn('/bin/sh', [
    '-c',
    '"$0" "$1" presets show iterion-default | head -n 1',
    process.execPath,
    BIN,
  ])
  let output = ''
  child.stdout.on('data', (chunk) => (output += chunk))
  child.stderr.on('data', (chunk) => (output += chunk))
  await once(child, 'close')
  t.match(output, /^iterion-default: .*\n$/)
})
