import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import ts from 'typescript'

// Where the cases of the book's groups 6 and 7 are shown. The book's ids and symptoms stand in client-env-and-docker.json.

const ROOT = path.resolve(import.meta.dirname, '../..')

/**
 * A case, the files of its tests, and below each their titles as they stand there. Of a table of attempts a title is the
 * name of an entry.
 */
const SHOWN = placesOf(`
E-01 test/docker/client-env.ts
       E-01, E-02 and E-09 both spellings, one value, and the switch of Node.js
E-02 test/docker/client-env.ts
       E-01, E-02 and E-09 both spellings, one value, and the switch of Node.js
       E-02 and E-17 an allowed name is reached, whether a program reads the variables or not
     test/clients/node-fetch.ts
       Node's own fetch
E-04 test/docker/client-env.ts
       E-04 servers of the sandbox itself are reached directly
       E-04 the loopback of IPv6 is never asked of the proxy, whether it is there or not
E-07 test/escape/sealed-netns.ts
       nothing gets out past the netns door
     test/escape/sealed-sidecar.ts
       nothing gets out past the sidecar door
     test/support/escape/direct-techniques.ts
       no proxy variables
       --noproxy
       NO_PROXY=*
# The only peer that is reached directly is the sandbox itself, which is listed by name and by both addresses.
E-08 test/sandbox/env-file.ts
       both spellings lead to the proxy, and only loopback goes past it
E-09 test/docker/client-env.ts
       E-01, E-02 and E-09 both spellings, one value, and the switch of Node.js
       E-09 and D-06 an advisory run names the proxy by an address, and no host by a name
E-10 test/policy/case-book.ts
       E-10: the correction strips the scheme once, and keeps port and exclusion
E-13 test/docker/client-env.ts
       E-13 and E-17 what does not speak to a proxy fails at once, what does needs no resolver
       E-13 git:// fails within seconds, by name and by address
E-15 test/docker/client-env.ts
       E-15 and E-19 nothing of the caller comes in, and little reaches the engine
       E-15 a variable comes in whole, or the run says before it starts that it is too large
     test/docker/case-book.ts
       E-19: the command line of the engine gets a short list of variables
E-16 test/case-book/http-requests.ts
       H-35, H-37 and E-16 hop-by-hop fields and the token do not go on, either way
E-17 test/docker/client-env.ts
       E-13 and E-17 what does not speak to a proxy fails at once, what does needs no resolver
       E-02 and E-17 an allowed name is reached, whether a program reads the variables or not
     test/clients/pip.ts
       pip
     test/clients/npm.ts
       npm
     test/clients/go.ts
       Go net/http
E-19 test/docker/client-env.ts
       E-15 and E-19 nothing of the caller comes in, and little reaches the engine
     test/docker/case-book.ts
       E-19: the command line of the engine gets a short list of variables
     test/podman/differences.ts
       proxies of the caller stay outside
       docker: the proxies of its configuration stay outside
E-20 test/case-book/http-requests.ts
       E-20 a refusal says what it is, in every place that a client may show
D-01 test/escape/sealed-netns.ts
       nothing gets out past the netns door
     test/escape/sealed-sidecar.ts
       nothing gets out past the sidecar door
     test/support/escape/direct-techniques.ts
       DNS over UDP, the name carries data
       DNS of the engine's own resolver, by UDP
       DNS of the system's resolver
D-03 test/escape/sealed-netns.ts
       nothing gets out past the netns door
     test/escape/sealed-sidecar.ts
       nothing gets out past the sidecar door
     test/support/escape/direct-techniques.ts
       TCP over IPv6
       UDP over IPv6
       IPv6 to all nodes of a link
D-04 test/escape/sealed-netns.ts
       nothing gets out past the netns door
     test/escape/sealed-sidecar.ts
       nothing gets out past the sidecar door
     test/support/escape/direct-techniques.ts
       --noproxy
       TCP by netcat, port 22
       UDP
       ICMP by a ping socket
D-05 test/docker/case-book.ts
       D-05: a sealed run listens at no address of this machine, an advisory one at the gateway alone
     test/docker/held-node.ts
       what is ready does not run when the door does not prove itself
D-06 test/docker/client-env.ts
       E-09 and D-06 an advisory run names the proxy by an address, and no host by a name
     test/podman/differences.ts
       the gateway of the bridge is where advisory listens
D-07 test/docker/lifecycle.ts
       a killed orchestrator ends its container at once
       what a killed orchestrator could not end is reaped by the next run
       nobody reaps a run that lives, or that cannot be judged
     test/docker/doors.ts
       \${kind}: it dies with the process that holds it
D-09 test/docker/case-book.ts
       D-09: a pull that sleeps and is deaf to SIGTERM is killed with what it started
     test/docker/engine.ts
       a pull that hangs is ended at its bound
# No run makes a network, so that none can leak and no pool can end.
D-11 test/docker/thirty-runs.ts
       thirty runs at once, half of them killed: nothing is left, and nobody saw another policy
D-12 test/sandbox/devcontainer/judge-mounts.ts
       D-12: sockets and roots of the host are refused by every spelling
       D-12: each entry is refused on its own
     test/docker/hostile-repo/refused.ts
       mount of a link that leads out
       mount as an object
D-13 test/docs/repository-cases.ts
       D-13: a mount is read after the variables are filled in
     test/sandbox/devcontainer/judge-mounts.ts
       D-13: folders of the home are refused after the variables are filled in
D-14 test/sandbox/devcontainer/run-args.ts
       D-14, D-33: flags that open the sandbox are refused in every spelling
       D-14: all of it at once is refused with each flag at its place
     test/sandbox/devcontainer/read-devcontainer.ts
       D-14: keys that open the sandbox are refused, unless they say nothing
     test/docker/hostile-repo/refused.ts
       privileged
       capAdd
       securityOpt
D-15 test/docs/repository-cases.ts
       D-15: initializeCommand is told in every form and is nowhere in what comes out
     test/sandbox/devcontainer/keys.ts
       D-15: nothing is silent that an author would miss
     test/docker/hostile-repo/harmless.ts
       a command for the host
D-17 test/sandbox/devcontainer/jsonc-source.ts
       D-17: comments and commas at the end are taken
D-18 test/sandbox/devcontainer/jsonc-source.ts
       D-18: a byte order mark and CRLF are no part of the text
     test/sandbox/post-create.ts
       D-18: a carriage return that a program shows is explained
       D-18: a script that is not found is looked at
     test/docker/repository.ts
       D-18: a script with Windows line ends is explained, and another one is not
D-21 test/sandbox/devcontainer/variables.ts
       D-21: a default goes up to the closing brace, colons and all
D-22 test/sandbox/devcontainer/variables.ts
       D-22: what is no variable stays as it is written
D-23 test/sandbox/devcontainer/variables.ts
       D-23: of the host only a few variables are told, and that one is not is told
     test/docs/repository-cases.ts
       D-23: no text brings in a variable of the host that is not open
     test/docker/hostile-repo/harmless.ts
       secrets of the host by variables
D-25 test/sandbox/env-deny.ts
       D-25: variables that load code, move credentials or replace the proxy
       a name is compared without regard to case
     test/docs/repository-cases.ts
       D-25: variables of a container, of its processes and of flags
     test/docker/hostile-repo/harmless.ts
       variables that load code or move an agent
     test/docker/environment.ts
       image, repository, workflow, operator: the last one that says something
D-26 test/docs/repository-cases.ts
       D-26: what engines or a shell would read differently is refused
     test/sandbox/drivers/docker-args.ts
       what is said is one word, and cannot be read as a flag
     test/docker/hostile-repo/refused.ts
       an image that is an option
       a user with a second line
D-28 test/sandbox/devcontainer/build-entry.ts
       D-28: what leads out of the repository is refused
       D-28: options of a build are refused, and no other key is passed over
     test/docs/repository-cases.ts
       D-28: a build beside an image, or out of the repository, is none
     test/docker/hostile-repo/refused.ts
       build of the host
       dockerfile behind a link
       options of the build
D-29 test/docker/users.ts
       whatever the image says, files belong to the caller
     test/docker/owners.ts
       files belong to the caller, with an account or without
       a pinned name without a number is warned about
       in a docker of the caller’s own root is the caller
     test/podman/rootless.ts
       whatever the image says, files belong to the caller
       ids that podman is configured to give do not hold
     test/docker/case-book.ts
       D-29: a user who stands in the metadata of the image alone changes nobody’s files
D-31 test/docker/no-runtime.ts
       without a runtime
       a dead engine is a failure, never a reason to go on without
     test/docker/case-book.ts
       D-31: what is missing of the network ends the run, and nothing of it has run
     test/docker/doors.ts
       \${kind}: a namespace with another way out gets no door
D-32 test/docker/case-book.ts
       D-32: a proxy that crashes takes its container along
     test/docker/lost-door.ts
       a run whose door is gone does not go on as if it were fine
D-33 test/docs/repository-cases.ts
       D-33: ports do nothing where they are keys, and are refused as flags
     test/sandbox/devcontainer/run-args.ts
       D-14, D-33: flags that open the sandbox are refused in every spelling
D-34 test/docs/repository-cases.ts
       D-34: compose is refused, and what does nothing is told
     test/docker/hostile-repo/refused.ts
       compose
D-36 test/sandbox/devcontainer/value-reader.ts
       D-36: a command reaches the sandbox as it is written
     test/docker/hostile-repo/harmless.ts
       dollars for another shell
D-37 test/docker/case-book.ts
       D-37: a command of a repository that fails is told, and leaves nothing
`)

/** Cases without a test, and why. */
const NOT_SHOWN: Readonly<Record<string, string>> = {
  'E-06':
    'nothing here evaluates NO_PROXY: the program sets it for others, who read it their own way',
  'E-12':
    'ssh speaks to no HTTP proxy: a hint and a way by CONNECT need the transparent door, which is not built',
}

/** Reads such a table: from each case to its files, and from each file to its titles. */
function placesOf(table: string): Map<string, Map<string, string[]>> {
  const cases = new Map<string, Map<string, string[]>>()
  let files = new Map<string, string[]>()
  let titles: string[] = []
  for (const line of table.split('\n')) {
    const [, id, file] = /^(\S*) +(test\/\S+)$/.exec(line) ?? []
    if (line === '' || line.startsWith('#')) continue
    if (id && cases.has(id)) throw new Error(`${id} stands in the table twice`)
    if (id) cases.set(id, (files = new Map()))
    if (file) files.set(file, (titles = []))
    else titles.push(line.trim())
  }
  return cases
}

/** What names a test: the title that is given to a function which makes one, or the name of an entry of a table. */
function titlesOf(file: string): Set<string> {
  const titles = new Set<string>()
  if (!existsSync(path.join(ROOT, file))) return titles
  const text = readFileSync(path.join(ROOT, file), 'utf8')
  const add = (node: ts.Node | undefined) => {
    if (node === undefined) return
    if (ts.isStringLiteralLike(node)) titles.add(node.text)
    else if (ts.isTemplateExpression(node)) titles.add(node.getText(source).slice(1, -1))
  }
  const source = ts.createSourceFile(file, text, ts.ScriptTarget.Latest)
  const visit = (node: ts.Node): void => {
    if (ts.isCallExpression(node)) {
      if (/(?:\.test|^onBoth)$/.test(node.expression.getText(source))) add(node.arguments[0])
    } else if (ts.isPropertyAssignment(node) && node.name.getText(source) === 'name') {
      add(node.initializer)
    }
    ts.forEachChild(node, visit)
  }
  visit(source)
  return titles
}

const BOOK = JSON.parse(
  readFileSync(new URL('client-env-and-docker.json', import.meta.url), 'utf8'),
) as readonly { id: string; group: string; symptom: string }[]

void tap.test('every case of the two groups is shown, or it is said why not', async (t) => {
  const ids = BOOK.map(({ id }) => id)
  t.equal(new Set(ids).size, ids.length, 'an id is in the book once')
  t.strictSame(
    new Set(BOOK.map(({ group }) => group)),
    new Set(['6-client-env', '7-docker-devcontainer']),
  )
  for (const { id, symptom } of BOOK) {
    t.ok(SHOWN.has(id) !== Object.hasOwn(NOT_SHOWN, id), `${id}: ${symptom}`)
  }
  const listed = [...SHOWN.keys(), ...Object.keys(NOT_SHOWN)]
  t.strictSame(
    listed.filter((id) => !ids.includes(id)),
    [],
    'nothing is listed that is not in the book',
  )
  for (const [id, why] of Object.entries(NOT_SHOWN)) t.ok(why.length > 20, id)
})

void tap.test('each test of the table is there', async (t) => {
  for (const [id, files] of SHOWN) {
    for (const [file, titles] of files) {
      t.ok(titles.length > 0, `${id}: ${file}`)
      const found = titlesOf(file)
      for (const title of titles) t.ok(found.has(title), `${id}: ${file}: ${title}`)
    }
  }
})
