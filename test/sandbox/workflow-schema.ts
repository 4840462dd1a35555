import tap from 'tap'
import { checkShape } from '../../src/policy/shape-problems.ts'
import { YamlSource } from '../../src/policy/yaml-source.ts'
import {
  isEnvName,
  WORKFLOW_DIALECT,
  workflowKeys,
  workflowSchema,
} from '../../src/sandbox/workflow-schema.ts'
import { inShort } from '../support/problems-of.ts'

const NODES = 'nodes: [{id: a, command: x}]'

function check(text: string): string[] {
  const source = new YamlSource(text, 'w.yaml')
  checkShape(source, workflowSchema, source.toValue() ?? {}, workflowKeys, WORKFLOW_DIALECT)
  return source.problems.map((one) => inShort(one).replace('WORKFLOW_SHAPE ', ''))
}

/** The problem of a block, whose text starts in column 11 of line 2. */
function inBlock(text: string): string[] {
  return check(`name: w\nsandbox: {${text}}\n${NODES}`)
}

function inNode(text: string): string[] {
  return check(`name: w\nnodes: [{id: a, ${text}}]`)
}

const FOLDER_HINT =
  'expected an absolute path without . and .., not /, and not in /proc, /sys or /dev'
const IMAGE_HINT =
  'expected the name of an image, such as "debian:bookworm", without blanks or a dash in front'

const BLOCKS: [text: string, problem: string][] = [
  ['mode: sometimes', 'mode is "sometimes"; expected none, auto, inline'],
  ['mdoe: auto', 'unknown key "mdoe" in sandbox; did you mean mode?'],
  ['image: 5', 'image is 5; expected a text (quote it)'],
  ['image: "-v/:/h"', `image is "-v/:/h"; ${IMAGE_HINT}`],
  ['image: "a b"', `image is "a b"; ${IMAGE_HINT}`],
  ['image: ""', `image is ""; ${IMAGE_HINT}`],
  ['build: .', 'build is "."; expected a map'],
  ['build: {file: x}', 'unknown key "file" in sandbox.build; did you mean dockerfile?'],
  ['build: {dockerfle: x}', 'unknown key "dockerfle" in sandbox.build; did you mean dockerfile?'],
  ['build: {context: ""}', 'build.context is ""; expected a path without control characters'],
  ['build: {args: {A: 1}}', 'build.args.A is 1; expected a text (quote it)'],
  ['user: 1000', 'user is 1000; expected a text (quote it)'],
  ['user: "-u"', 'user is "-u"; expected a name, UID or UID:GID'],
  ['user: "root\\n--privileged"', 'user is "root\\n--privileged"; expected a name, UID or UID:GID'],
  ['user: "1000:"', 'user is "1000:"; expected a name, UID or UID:GID'],
  ['user: "a:b"', 'user is "a:b"; expected a name, UID or UID:GID'],
  ['user: "4294967295"', 'user is "4294967295"; expected a name, UID or UID:GID'],
  ['user: "1:4294967295"', 'user is "1:4294967295"; expected a name, UID or UID:GID'],
  ['workspace_folder: work', `workspace_folder is "work"; ${FOLDER_HINT}`],
  ['workspace_folder: /', `workspace_folder is "/"; ${FOLDER_HINT}`],
  ['workspace_folder: /w/', `workspace_folder is "/w/"; ${FOLDER_HINT}`],
  ['workspace_folder: /w/../x', `workspace_folder is "/w/../x"; ${FOLDER_HINT}`],
  ['workspace_folder: //w', `workspace_folder is "//w"; ${FOLDER_HINT}`],
  ['workspace_folder: /proc', `workspace_folder is "/proc"; ${FOLDER_HINT}`],
  ['workspace_folder: /sys/x', `workspace_folder is "/sys/x"; ${FOLDER_HINT}`],
  ['workspace_folder: /dev/shm', `workspace_folder is "/dev/shm"; ${FOLDER_HINT}`],
  ['workspace_folder: "/w\\0x"', `workspace_folder is "/w\\u0000x"; ${FOLDER_HINT}`],
  ['host_state: yes', 'host_state is "yes"; expected auto, none'],
  ['post_create: " "', 'post_create is " "; expected a command'],
  ['post_create: [a]', 'post_create is a list; expected a text (quote it)'],
  ['env: {A: 1}', 'env.A is 1; expected a text (quote it)'],
  ['env: {A: "x\\0"}', 'env.A is "x\\u0000"; expected a text without NUL'],
  ['env: [A]', 'env is a list; expected a map'],
  ['mounts: /a:/b', 'mounts is "/a:/b"; expected a list'],
  [
    'mounts: [5]',
    'mounts[1] is 5; a mount is "SOURCE:TARGET[:ro]" or a map with source and target',
  ],
  ['mounts: [{source: a}]', 'mounts[1].target is missing'],
  ['mounts: [{source: a, target: /b, ro: true}]', 'unknown key "ro" in sandbox.mounts[1]'],
  ['policy: x', 'unknown key "policy"; the policy of a run stands in sandbox, under network'],
  ['rules: []', 'unknown key "rules"; the policy of a run stands in sandbox, under network'],
]

void tap.test('a block is held to its shape', async (t) => {
  for (const [text, problem] of BLOCKS) {
    const found = inBlock(text)
    t.equal(found.length, 1, text)
    const [place = '', ...words] = (found[0] ?? '').split(' ')
    t.match(place, /^2:\d+$/)
    t.equal(words.join(' ').replace(/^sandbox\.(?!build \{)/, ''), problem, text)
  }
})

const NODE_HINT =
  'expected up to 64 letters, digits, dots, hyphens and _, the first a letter or digit'
const TABLE: [text: string, problems: string[]][] = [
  [`name: w\nsandbox: maybe\n${NODES}`, ['2:10 sandbox is "maybe"; expected auto, none, or a map']],
  [
    `name: w\nsandbox: inline\n${NODES}`,
    ['2:10 sandbox is "inline"; expected auto, none, or a map'],
  ],
  [`name: w\nsandbox:\n${NODES}`, ['2:9 sandbox is empty; expected auto, none, or a map']],
  [`name: w\nsandbox: []\n${NODES}`, ['2:10 sandbox is a list; expected auto, none, or a map']],
  [`name: w\nversion: 2\n${NODES}`, ['2:10 version is 2; expected 1']],
  [`name: ""\n${NODES}`, ['1:7 name is ""; expected a name of up to 100 characters']],
  [`name: " w"\n${NODES}`, ['1:7 name is " w"; expected a name of up to 100 characters']],
  [`name: "a\\nb"\n${NODES}`, ['1:7 name is "a\\nb"; expected a name of up to 100 characters']],
  [
    `name: w\npolicy: p\n${NODES}`,
    ['2:1 unknown key "policy"; the policy of a run stands in sandbox, under network'],
  ],
  [
    `name: w\nnetwork: open\n${NODES}`,
    ['2:1 unknown key "network"; it stands in sandbox: sandbox: {network: ...}'],
  ],
  [
    `name: w\nimage: x\n${NODES}`,
    ['2:1 unknown key "image"; it stands in sandbox: sandbox: {image: ...}'],
  ],
  [`name: w\nnode: []\n${NODES}`, ['2:1 unknown key "node"; did you mean nodes?']],
  [`name: w\n__proto__: 1\n${NODES}`, ['2:1 unknown key "__proto__"']],
  ['name: w\nnodes: []', ['2:8 nodes is []; expected at least one node']],
  ['name: w', ['1:1 nodes is missing']],
  ['name: w\nnodes: [{id: -a, command: x}]', [`2:14 nodes[1].id is "-a"; ${NODE_HINT}`]],
  ['name: w\nnodes: [{id: a/b, command: x}]', [`2:14 nodes[1].id is "a/b"; ${NODE_HINT}`]],
  ['name: w\nnodes: [{command: x}]', ['2:9 nodes[1].id is missing']],
  [
    `name: w\nattachments: ["a\\nb"]\n${NODES}`,
    ['2:15 attachments[1] is "a\\nb"; expected a path without control characters'],
  ],
  [
    `name: w\nsecrets: [{name: A-B, as: stdin, from: {evn: X}}]\n${NODES}`,
    [
      '2:18 secrets[1].name is "A-B"; expected the name of a variable: letters, digits and _',
      '2:27 secrets[1].as is "stdin"; expected env, file',
      '2:41 unknown key "evn" in secrets[1].from; did you mean env?',
    ],
  ],
  [
    `name: w\nsecrets: [{nam: A, as: env, from: {env: "1A"}}]\n${NODES}`,
    [
      '2:11 secrets[1].name is missing',
      '2:41 secrets[1].from.env is "1A"; expected the name of a variable: letters, digits and _',
      '2:12 unknown key "nam" in secrets[1]; did you mean name?',
    ],
  ],
]

void tap.test('a workflow is held to its shape', async (t) => {
  for (const [text, problems] of TABLE) t.strictSame(check(text), problems, text)
})

void tap.test('a node has a backend that is known and a command', async (t) => {
  const hint = 'a command is a text for sh or a list of words'
  t.strictSame(inNode('backend: claude, command: x'), [
    '2:26 nodes[1].backend is "claude"; expected tool, claude_code, pi, kimi, grok, claw, codex',
  ])
  t.strictSame(inNode('backend: tool'), [`2:9 nodes[1].command is missing; ${hint}`])
  t.strictSame(inNode('command: 5'), [`2:26 nodes[1].command is 5; ${hint}`])
  t.strictSame(inNode('command: {a: b}'), [`2:26 nodes[1].command is a map; ${hint}`])
  for (const command of ['""', '"  "', '"a\\0"', '[]', '[""]', '["", a]', '["a\\0"]', '[5]']) {
    t.equal(inNode(`command: ${command}`).length, 1, command)
  }
  for (const command of ['x', '[x]', '[x, ""]', '"a\\nb"']) {
    t.strictSame(inNode(`command: ${command}`), [], command)
  }
  t.equal(inNode('command: x, fallback: tool').length, 1)
})

void tap.test('what is right is let through', async (t) => {
  for (const text of [
    'user: root',
    'user: "0"',
    'user: "1000:1000"',
    'user: www-data',
    'workspace_folder: /work',
    'workspace_folder: /devel/x',
    'workspace_folder: /procedures',
    'env: {}',
    'network: anything',
  ]) {
    t.strictSame(inBlock(text), [], text)
  }
})

void tap.test('the name of a variable has letters, digits and _', async (t) => {
  for (const name of ['A', '_', 'a1', 'FOO_BAR', 'constructor']) t.ok(isEnvName(name), name)
  for (const name of ['', '1A', 'A=B', 'C\nD', '-e', 'A-B', 'A B', 'A\n', '__proto__', '\u00c4']) {
    t.notOk(isEnvName(name), JSON.stringify(name))
  }
})
