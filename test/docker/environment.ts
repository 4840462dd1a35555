import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { openDesk } from '../support/sandbox-run.ts'

// Who may say what a variable is, from the weakest to the strongest; the program's own come last of all.
const TIERS = ['image', 'repository', 'workflow', 'operator'] as const
const IMAGE = 'iterion-egress-variables'

/** Every choice of tiers, as a number whose bits they are. */
const CHOICES = Array.from({ length: 2 ** TIERS.length - 1 }, (_, index) => index + 1)

/** The variables of a tier, each in every choice that the tier is part of. */
function variablesOf(tier: (typeof TIERS)[number]): Record<string, string> {
  const bit = 2 ** TIERS.indexOf(tier)
  return Object.fromEntries(
    CHOICES.filter((choice) => Math.floor(choice / bit) % 2 === 1).map((choice) => [
      `V${choice}`,
      tier,
    ]),
  )
}

tap.before(() => {
  if (NO_ENGINE !== false) return
  const lines = Object.entries(variablesOf('image')).map(
    ([name, value]) => `ENV ${name}=${value}\n`,
  )
  execFileSync('docker', ['build', '--quiet', '--tag', IMAGE, '-'], {
    input: `FROM ${TEST_IMAGE}\n${lines.join('')}`,
  })
})

void tap.test(
  'image, repository, workflow, operator: the last one that says something',
  { skip: NO_ENGINE },
  async (t) => {
    const desk = openDesk(t)
    execFileSync('git', ['init', '--quiet', desk.workspace])
    const folder = path.join(desk.workspace, '.devcontainer')
    mkdirSync(folder)
    const repository = Object.entries(variablesOf('repository'))
    // By either of its keys.
    const half = repository.length / 2
    writeFileSync(
      path.join(folder, 'devcontainer.json'),
      JSON.stringify({
        image: IMAGE,
        containerEnv: Object.fromEntries([...repository.slice(0, half), ['TWICE', 'container']]),
        remoteEnv: Object.fromEntries([...repository.slice(half), ['TWICE', 'remote']]),
      }),
    )
    const proxies = {
      HTTP_PROXY: 'http://other.test',
      https_proxy: 'http://other.test',
      NO_PROXY: '*',
    }
    writeFileSync(
      path.join(desk.workspace, 'workflow.yaml'),
      JSON.stringify({
        name: 'variables',
        sandbox: {
          mode: 'auto',
          env: { ...variablesOf('workflow'), ...proxies, OPENAI_API_KEY: 'own' },
        },
        nodes: [{ id: 'only', command: 'env' }],
      }),
    )
    const named = Object.entries({ ...variablesOf('operator'), ...proxies }).map(
      ([name, value]) => `--env=${name}=${value}`,
    )
    const { code, stdout } = await desk.run(['run', ...named, 'workflow.yaml'])
    t.equal(code, 0)
    const found = new Map(
      stdout.split('\n').map((line): [string, string] => {
        const [name = '', ...value] = line.split('=')
        return [name, value.join('=')]
      }),
    )
    for (const choice of CHOICES) {
      const strongest = TIERS[Math.floor(Math.log2(choice))]
      t.equal(found.get(`V${choice}`), strongest, `V${choice}`)
    }
    t.equal(found.get('TWICE'), 'remote', 'remoteEnv goes before containerEnv')
    t.equal(found.get('OPENAI_API_KEY'), 'own', 'a workflow may say what a repository may not')
    for (const name of ['HTTP_PROXY', 'https_proxy', 'http_proxy', 'ALL_PROXY']) {
      t.equal(found.get(name), 'http://127.0.0.1:3128', name)
    }
    t.equal(found.get('NO_PROXY'), 'localhost,127.0.0.1,::1')
  },
)
