import { readFileSync } from 'node:fs'
import { execFileSync } from 'node:child_process'
import tap from 'tap'
import { parse } from 'yaml'
import { decide } from '../../src/policy/decide.ts'
import { lintRules } from '../../src/policy/lint.ts'
import { runPolicyTests } from '../../src/policy/policy-test.ts'
import { formatTarget, isBadTarget, parseTarget } from '../../src/policy/target.ts'
import { createCatalog } from '../../src/presets/catalog.ts'
import { composePolicy, expandPreset } from '../../src/presets/compose.ts'

const NOW = Date.parse('2026-11-29T12:00:00Z')
const catalog = createCatalog()
const { policy } = composePolicy({ presets: ['iterion-default'] }, catalog)

function fixture<T>(name: string): T[] {
  return parse(readFileSync(new URL(`../fixtures/presets/${name}`, import.meta.url), 'utf8'))
}

function verdictOf(text: string, by = policy): string {
  const target = parseTarget(text)
  const { verdict, reason } = decide(by, target, NOW)
  return verdict === 'allow' ? verdict : `${verdict} (${reason})`
}

void tap.test('hosts that common client runs need are allowed by iterion-default', async (t) => {
  const needed = fixture<{ target: string; client: string; step: string }>('hosts-needed.yaml')
  t.ok(needed.length >= 150, `${needed.length} entries`)
  for (const { target, client, step } of needed) t.equal(verdictOf(target), 'allow', `${target}: ${client}, ${step}`)
})

void tap.test('hosts that must stay out are denied by iterion-default', async (t) => {
  const keptOut = fixture<{ target: string; why: string }>('hosts-kept-out.yaml')
  t.ok(keptOut.length >= 150, `${keptOut.length} entries`)
  for (const { target, why } of keptOut) t.match(verdictOf(target), /^deny/, `${target}: ${why}`)
})

void tap.test('the registry that npm is configured for is allowed, by its zone', async (t) => {
  const registry = execFileSync('npm', ['config', 'get', 'registry'], { encoding: 'utf8', cwd: '/' }).trim()
  if (!new URL(registry).hostname.endsWith('.npmjs.org')) {
    t.pass('npm is configured for another registry')
  } else t.equal(verdictOf(registry), 'allow', 'npm: packuments and tarballs')
})

void tap.test('the archives that apt is configured for are allowed, over http and https', async (t) => {
  const hosts = aptHosts().filter((host) => host.endsWith('.debian.org'))
  if (hosts.length === 0) t.pass('apt is configured for other archives, or is not there')
  for (const host of hosts) {
    t.equal(verdictOf(`http://${host}`), 'allow', 'apt over http')
    t.equal(verdictOf(`https://${host}`), 'allow', 'apt over https')
  }
})

function aptHosts(): string[] {
  try {
    const uris = execFileSync('apt-get', ['indextargets', '--format', '$(SITE)'], { encoding: 'utf8' })
    return [...new Set(uris.split('\n').filter((one) => one !== ''))].map((one) => new URL(one).hostname)
  } catch {
    return []
  }
}

for (const name of catalog.names) {
  void tap.test(`preset ${name}`, async (t) => {
    const preset = catalog.get(name)
    const parts = expandPreset(name, catalog)
    const rules = parts.flatMap((part) => part.rules)
    const own = composePolicy({ presets: [name] }, catalog).policy
    t.strictSame(runPolicyTests(own, preset.tests, NOW).map(({ test }) => test.text), [], 'passes its own tests')
    t.strictSame(lintRules(rules, NOW).map(({ message }) => message), [], 'has no rule that does nothing')
    t.match(preset.verified, /^\d{4}-\d\d-\d\d$/, 'says when it was last checked')
    for (const [i, rule] of preset.rules.entries()) {
      const entry = preset.entries[i]
      t.match(entry?.note, /./, `${rule.text} says what it is for`)
      t.equal(rule.pattern.kind, 'name', `${rule.text} is about names`)
      if (rule.effect === 'exclude') continue
      t.ok(rule.namesPorts, `${rule.text} names its ports`)
      t.match(entry?.source, /./, `${rule.text} has a source`)
      t.match(entry?.verified, /^\d{4}-\d\d-\d\d$/, `${rule.text} was checked on a day`)
      t.match(entry?.exfiltration, /^(?:none|own-account|anybody)$/, `${rule.text} says who receives data`)
    }
  })
}

void tap.test('iterion-default is its five families and nothing else', async (t) => {
  const preset = catalog.get('iterion-default')
  t.strictSame(preset.extends.map((one) => one.name), ['llm', 'registries', 'forges', 'apt', 'nix'])
  t.strictSame(preset.rules, [])
})

void tap.test('no sample of a wildcard reaches further than one label or a foreign port', async (t) => {
  for (const rule of policy.rules) {
    if (rule.effect === 'exclude' || !rule.pattern.text.startsWith('*.')) continue
    const zone = rule.pattern.text.slice(2)
    t.match(verdictOf(`https://a.b.${zone}`), /^deny/, `two labels before ${zone}`)
    t.match(verdictOf(`a.${zone}:22`), /^deny/, `port 22 below ${zone}`)
  }
})

void tap.test('every target of the lists can be read', async (t) => {
  for (const name of ['hosts-needed.yaml', 'hosts-kept-out.yaml']) {
    for (const { target } of fixture<{ target: string }>(name)) {
      const read = parseTarget(target)
      t.notOk(isBadTarget(read), target)
      if (!isBadTarget(read)) t.ok(formatTarget(read))
    }
  }
})
