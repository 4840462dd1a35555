import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { RUN_LABEL } from '../../src/sandbox/labels.ts'
import { docker, NO_ENGINE, startOutside, TEST_IMAGE } from '../support/docker.ts'
import { type EventRecord, openDesk } from '../support/sandbox-run.ts'

const RUNS = 30

/** What a run must not leave on this machine, by kind. */
async function traces(): Promise<Record<string, string[]>> {
  const lines = (text: string) =>
    text
      .split('\n')
      .filter((line) => line !== '')
      .toSorted()
  const processes = execFileSync('ps', ['-eo', 'args', '--no-headers']).toString()
  return {
    containers: lines(await docker('ps', '-aq', '--no-trunc', '--filter', `label=${RUN_LABEL}`)),
    networks: lines(await docker('network', 'ls', '-q')),
    volumes: lines(await docker('volume', 'ls', '-q')),
    namespaces: lines(execFileSync('lsns', ['-t', 'net', '-n', '-o', 'NS']).toString()),
    processes: lines(processes).filter((line) =>
      /iterion-egress\.js run|netns-helper|docker (?:run|exec)/.test(line),
    ),
  }
}

void tap.test(
  'thirty runs at once, half of them killed: nothing is left, and nobody saw another policy',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    const names = Array.from({ length: RUNS }, (_, i) => `run-${i}.test`)
    const outside = await startOutside(t, ...names)
    const before = await traces()
    const runs = names.map((name, i) => {
      writeFileSync(path.join(desk.workspace, `${i}.yaml`), `rules: ["${name}"]\n`)
      const others = [names[(i + 1) % RUNS], names[(i + 7) % RUNS]]
      const ask = (host = '') => `curl -s -o /dev/null -w '%{http_code}\\n' http://${host}/`
      const script = [ask(name), ...others.map(ask), 'sleep 0.3'].join('; ')
      const args = [
        'run',
        '--policy',
        `${i}.yaml`,
        '--resolve',
        `${name}:${outside.address}`,
        '--image',
        TEST_IMAGE,
        '--',
        'sh',
        '-c',
        script,
      ]
      const running = desk.start(args, { input: '' })
      const isKilled = i % 2 === 1
      if (isKilled) setTimeout(() => running.child.kill('SIGKILL'), Math.random() * 12_000)
      return { ...running, name, isKilled }
    })
    const results = await Promise.all(
      runs.map(async ({ done, ...rest }) => ({ ...rest, ...(await done) })),
    )
    await new Promise((resolve) => setTimeout(resolve, 5_000))
    t.match(await desk.run(['reap']), { code: 0 })
    t.strictSame(await traces(), before)
    t.strictSame(desk.leftovers(), [])

    for (const { name, code, stdout, stderr, isKilled } of results) {
      if (!isKilled)
        t.match({ code, stdout }, { code: 0, stdout: '200\n403\n403\n' }, name + stderr)
    }
    const records = desk.records()
    t.strictSame(
      records.filter(({ status }) => status === 'running').map(({ id }) => id),
      [],
      'no record says that it runs',
    )
    const finished = records.filter(({ status }) => status === 'finished')
    t.ok(finished.length >= RUNS / 2)
    for (const { id, flags } of finished) {
      const text = readFileSync(`${desk.iterionHome}/runs/${id}/events.jsonl`, 'utf8')
      t.ok(text.endsWith('\n'))
      const events = text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line) as EventRecord)
      t.strictSame(
        events.map(({ seq, run_id }) => [seq, run_id]),
        events.map((_, index) => [index + 1, id]),
      )
      t.equal(events.at(-1)?.type, 'sandbox_stopped')
      const own = (flags.resolve[0] ?? '').split(':')[0]
      const blocked = events.flatMap((one) =>
        one.type === 'network_blocked' && 'host' in one.data ? [one.data.host] : [],
      )
      t.equal(blocked.length, 2, 'its own log has its own blocks')
      t.notOk(blocked.includes(own ?? ''), 'its own policy allows its own name')
    }
  },
)
