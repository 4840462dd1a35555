import tap from 'tap'
import { YamlSource } from '../../src/policy/yaml-source.ts'
import { checkWorkflow } from '../../src/sandbox/workflow-checks.ts'
import { inShort } from '../support/problems-of.ts'

function check(text: string): string[] {
  const source = new YamlSource(text, 'w.yaml')
  checkWorkflow(source, source.toValue())
  return source.problems.map((one) => inShort(one).replace('WORKFLOW_SHAPE ', ''))
}

const NAME_HINT = 'is no name of a variable: letters, digits and _, no digit first'
const FROM_HINT = 'a secret comes from exactly one of env and file'

const TABLE: [text: string, problems: string[]][] = [
  ['sandbox: {image: a, build: {}}', ['1:21 give either image or build, not both']],
  ['sandbox: {mode: auto, image: a, build: {}}', ['1:33 give either image or build, not both']],
  ['sandbox: {mode: inline}', ['1:17 inline needs an image or a build beside it']],
  ['sandbox: {mode: inline, image: a}', []],
  ['sandbox: {mode: inline, build: {}}', []],
  ['sandbox: {mode: none, image: a}', []],
  ['sandbox: {mode: auto, build: {}}', []],
  [
    'sandbox: {env: {"A=B": "1", "-e": "3", "": "4", OK: "5"}}',
    [`1:17 "A=B" ${NAME_HINT}`, `1:29 "-e" ${NAME_HINT}`, `1:40 "" ${NAME_HINT}`],
  ],
  ['sandbox: {env: {"C\\nD": "2"}}', [`1:17 "C\\nD" ${NAME_HINT}`]],
  ['sandbox: {env: {__proto__: "x"}}', [`1:17 "__proto__" ${NAME_HINT}`]],
  [
    `sandbox: {env: {BIG: ${'x'.repeat(131_068)}, FITS: ${'x'.repeat(131_066)}}}`,
    ['1:17 BIG is too large: a variable and its name have less than 128 KiB'],
  ],
  ['sandbox: {build: {args: {A-B: x}}}', [`1:26 "A-B" ${NAME_HINT}`]],
  [
    'sandbox: {mounts: ["/a:/b", "a:/b", {source: ~/x, target: /x}, {source: x, target: y}]}',
    [
      '1:29 "a" names a volume, and there are only binds',
      '1:37 no shell reads the source of a mount: ~ would be a folder of that name',
      '1:64 the target "y" of a mount is not absolute',
    ],
  ],
  [
    'sandbox: {mounts: ["~/a:/b", "/a:b", "/a\\n:/b"]}',
    [
      '1:20 no shell reads the source of a mount: ~ would be a folder of that name',
      '1:30 the target "b" of a mount is not absolute',
      '1:38 a mount has no control characters',
    ],
  ],
  [
    'nodes: [{id: a}, {id: b}, {id: a}, {id: a}]',
    ['1:32 the id "a" is given twice', '1:41 the id "a" is given twice'],
  ],
  [
    'secrets: [{name: A, as: env}, {name: A, as: file}, {name: A, as: env}]',
    ['1:59 the name "A" is given twice'],
  ],
  [
    'nodes: [{backend: pi, command: -x}, {backend: tool, command: -x}, {backend: pi, command: [-x]}]',
    ['1:32 an agent would take a task with a dash in front for an option'],
  ],
  [
    'nodes: [{backend: claw, command: [a]}, {backend: claw, command: a}]',
    ['1:34 claw is given a task, which is a text; a command is for the backend tool'],
  ],
  [
    'nodes: [{command: a, fallback: [pi]}, {backend: pi, command: [a], fallback: [kimi]}]',
    [
      '1:32 a command has no fallback: only a task, which is a text, does',
      '1:77 a command has no fallback: only a task, which is a text, does',
    ],
  ],
  [
    'nodes: [{backend: pi, command: a, fallback: [tool]}, {backend: pi, command: a, fallback: [pi]}]',
    ['1:45 tool runs commands, and no tasks', '1:90 a backend is named twice'],
  ],
  ['nodes: [{backend: pi, command: a, fallback: [kimi, claw, codex]}]', []],
  ['secrets: [{from: {}}]', [`1:18 ${FROM_HINT}`]],
  ['secrets: [{from: {env: A, file: b}}]', [`1:18 ${FROM_HINT}`]],
  ['secrets: [{from: {env: A}}, {from: {file: b}}]', []],
]

void tap.test('what two keys say together is checked where it stands', async (t) => {
  for (const [text, problems] of TABLE) t.strictSame(check(text), problems, text)
})

void tap.test('the correction of a mount is shown', async (t) => {
  const source = new YamlSource('sandbox: {mounts: [cache:/b]}', 'w.yaml')
  checkWorkflow(source, source.toValue())
  t.match(source.problems, [{ correction: '"./cache:/b"' }])
})

void tap.test('a file of any other shape is looked at without a fault of ours', async (t) => {
  for (const text of [
    '',
    'x',
    '[]',
    'sandbox: x',
    'sandbox: [x]',
    'sandbox: {env: x, mounts: {}, build: []}',
    'secrets: {a: b}',
    'secrets: [x, [], {from: x}]',
    'nodes: x',
    'nodes: [x, [], {id: 5}, {id: 5}]',
  ]) {
    t.strictSame(check(text), [], text)
  }
})
