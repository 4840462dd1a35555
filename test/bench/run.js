// What a sandboxed run costs beyond the container itself: pairs of `docker run` and of our own, interleaved. Beside it what
// an open network costs docker by itself, and the least that the same steps take: a container that stands, one command in
// it, its removal, by docker's command line alone; and how long Node.js takes to start, which is in each of ours.
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { median, timeOf } from './support/pairs.js'

const PAIRS = 20
const IMAGE = 'iterion-egress-test'
/** The most that a run may take beyond `docker run`, in milliseconds, as the median of the pairs. */
const MOST = { sealed: 350, open: 200 }

const PROGRAM = path.resolve(import.meta.dirname, '../../bin/iterion-egress.js')

/** Runs the benchmark. Answers 1 if a median is over its bound. */
export async function main(args) {
  if (spawnSync('docker', ['image', 'inspect', IMAGE]).status !== 0) {
    process.stderr.write(`no engine, or no image ${IMAGE}: scripts/test-image.sh makes it\n`)
    return 4
  }
  const folder = mkdtempSync(path.join(tmpdir(), 'bench-'))
  try {
    const result = await measure(folder)
    process.stdout.write(args.includes('--json') ? `${JSON.stringify(result)}\n` : table(result))
    return result.rows.some((row) => row.median > row.most) ? 1 : 0
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

async function measure(folder) {
  const workspace = path.join(folder, 'workspace')
  mkdirSync(workspace)
  writeFileSync(path.join(workspace, 'policy.yaml'), 'presets: [iterion-default]\n')
  writeFileSync(
    path.join(workspace, 'workflow.yaml'),
    `name: bench
sandbox: { image: ${IMAGE}, network: { presets: [iterion-default] } }
nodes: [{ id: only, command: ["true"] }]
`,
  )
  const env = {
    PATH: process.env.PATH,
    HOME: folder,
    TMPDIR: tmpdir(),
    ITERION_HOME: path.join(folder, 'iterion'),
  }
  const time = (words) => timeOf(words, workspace, env)
  const steps = (network) => () => timeOfSteps(network, workspace, env)
  const ours = (...words) => [process.execPath, PROGRAM, 'run', ...words]
  const subjects = [
    {
      name: 'sealed, --image --policy',
      most: MOST.sealed,
      run: () => time(ours('--policy', 'policy.yaml', '--image', IMAGE, '--', 'true')),
    },
    {
      name: 'sealed, workflow file',
      most: MOST.sealed,
      run: () => time(ours('workflow.yaml')),
    },
    {
      name: 'open, --image',
      most: MOST.open,
      run: () => time(ours('--image', IMAGE, '--', 'true')),
    },
    {
      name: 'docker run on a bridge',
      run: () => time(['docker', 'run', '--rm', '--network', 'bridge', IMAGE, 'true']),
    },
    { name: 'steps alone, no network', run: steps('none') },
    { name: 'steps alone, bridge', run: steps('bridge') },
    { name: 'Node.js alone', isWhole: true, run: () => time([process.execPath, '-e', '0']) },
  ]
  const docker = ['docker', 'run', '--rm', '--network', 'none', IMAGE, 'true']
  const base = []
  const differences = subjects.map(() => [])
  // The first round warms caches and does not count.
  for (let round = 0; round <= PAIRS; round++) {
    for (const [i, { run, isWhole = false }] of subjects.entries()) {
      const alone = await time(docker)
      const whole = await run()
      if (round === 0) continue
      base.push(alone)
      differences[i].push(isWhole ? whole : whole - alone)
    }
  }
  return {
    date: new Date().toISOString(),
    pairs: PAIRS,
    docker_run_ms: Math.round(median(base)),
    rows: subjects.map(({ name, most, isWhole = false }, i) => ({
      name,
      is_whole: isWhole,
      median: Math.round(median(differences[i])),
      low: Math.round(Math.min(...differences[i])),
      high: Math.round(Math.max(...differences[i])),
      most,
    })),
  }
}

/** `docker run -i` of `cat`, `docker exec` of one command, and the end of `cat`. */
async function timeOfSteps(network, cwd, env) {
  const name = `bench-${process.pid}`
  const start = performance.now()
  const args = ['run', '-i', '--rm', '--init', '--entrypoint=cat', `--network=${network}`]
  const holder = spawn('docker', [...args, `--name=${name}`, IMAGE, '-'], {
    cwd,
    env,
    stdio: ['pipe', 'pipe', 'ignore'],
  })
  holder.stdin.write('up')
  await once(holder.stdout, 'data')
  await timeOf(['docker', 'exec', name, 'true'], cwd, env)
  holder.stdin.end()
  await once(holder, 'close')
  return performance.now() - start
}

function table({ pairs, docker_run_ms: base, rows }) {
  const lines = rows.map(({ name, is_whole: isWhole, median: mid, low, high, most }) => {
    const verdict = most === undefined ? '' : `  at most ${most}: ${mid > most ? 'OVER' : 'ok'}`
    const sign = isWhole ? ' ' : '+'
    return `${name.padEnd(26)} ${sign}${String(mid).padStart(4)} ms  (${low} to ${high})${verdict}`
  })
  return `docker run --rm --network none: ${base} ms; beyond it, median of ${pairs} pairs:\n${lines.join('\n')}\n`
}
