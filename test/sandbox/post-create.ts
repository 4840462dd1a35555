import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import tap, { type Test } from 'tap'
import type { EgressError } from '../../src/errors.ts'
import type { Driver, ExecSpec } from '../../src/sandbox/driver.ts'
import type { ContainerNode } from '../../src/sandbox/node-process.ts'
import { runPostCreate } from '../../src/sandbox/post-create.ts'
import type { StatusFile } from '../../src/sandbox/status-file.ts'

const HINT = /A script has Windows line ends.*eol=lf.*core\.autocrlf input/

/** What an engine that is not asked would say. */
const NOBODY: Driver['run'] = () => Promise.reject(new Error('nobody answers'))

/** A command that prints something and fails, and a sandbox that is a folder of this machine. */
function failing(printed: string, run: Driver['run'], workdir: string, code: number) {
  const exec = { workdir, command: ['x'], envFile: undefined } as unknown as ExecSpec
  const driver = {
    exec: (_: ExecSpec, stdio: 'pipe') => spawn('printf', ['%s', printed], { stdio }),
    run,
  } as unknown as Driver
  const status = { exitCode: () => code } as unknown as StatusFile
  return { driver, exec, index: 0, status, hasShellFile: false } satisfies ContainerNode
}

/** The message of a command that printed this and failed. */
async function messageOf(printed: string, run = NOBODY, workdir = '/', code = 127) {
  const { signal } = new AbortController()
  const node = failing(printed, run, workdir, code)
  let told = ''
  const error = await runPostCreate(node, (text) => void (told += text), signal).then(
    () => undefined,
    (reason: EgressError) => reason,
  )
  return { message: error?.message, code: error?.code, told }
}

/** A folder with scripts, and the shell of this machine that looks at them. */
function folderWith(t: Test, scripts: Readonly<Record<string, string>>) {
  const folder = t.testdir({})
  for (const [name, text] of Object.entries(scripts)) {
    writeFileSync(path.join(folder, name), text)
    chmodSync(path.join(folder, name), 0o755)
  }
  const run: Driver['run'] = async ({ command, workdir }) => {
    const [program = '', ...args] = command
    const { status, stdout, stderr } = spawnSync(program, args, { cwd: workdir, encoding: 'utf8' })
    return { code: status ?? undefined, stdout, stderr }
  }
  return { folder, run }
}

void tap.test('a command that ends well says nothing', async (t) => {
  t.match(await messageOf('fine\n', NOBODY, '/', 0), { message: undefined, told: 'fine\n' })
})

void tap.test('a failure is told with its code and its last lines', async (t) => {
  const lines = Array.from({ length: 30 }, (_, i) => `line ${i}`)
  const { message, code, told } = await messageOf(`${lines.join('\n')}\n\n`, NOBODY, '/', 3)
  t.equal(code, 'SANDBOX_SETUP_FAILED')
  t.equal(message, `post_create ended with 3:\n${lines.slice(-10).join('\n')}`)
  t.equal(told, `${lines.join('\n')}\n\n`, 'and all of it was shown')
})

void tap.test('D-18: a carriage return that a program shows is explained', async (t) => {
  for (const printed of [
    'bash: ./x.sh: /bin/sh^M: bad interpreter: No such file or directory',
    'zsh: ./x.sh: bad interpreter: /bin/sh^M: no such file or directory',
    "/usr/bin/env: 'bash\\r': No such file or directory\n/usr/bin/env: use -[v]S to pass options",
    '/usr/bin/env: ‘node\\r’: No such file or directory',
    'env: python3\r: No such file or directory',
    "env: can't execute 'bash\r': No such file or directory",
    './x.sh: 2: \r: not found',
    "./x.sh: line 2: $'\\r': command not found",
    "./x.sh: line 3: cd: $'/tmp\\r': No such file or directory",
    "x.sh: 3: cd: can't cd to /tmp\r",
    './x.sh: 1: set: Illegal option -\r',
    './x.sh: set: line 1: illegal option -\r',
    './x.sh: line 1: set: -\r: invalid option',
    '/bin/bash: -\r: invalid option',
  ]) {
    const { message } = await messageOf(`before\n${printed}\n`, NOBODY, '/', 2)
    t.match(message, HINT, printed)
    t.ok(message?.endsWith(`\nbefore\n${printed.trimEnd()}`), 'and is still shown')
  }
})

void tap.test('D-18: a script that is not found is looked at', async (t) => {
  const { folder, run } = folderWith(t, {
    'crlf.sh': '#!/bin/sh\r\necho a\r\n',
    'two words.sh': '#!/bin/bash\r\n',
    'no-end.sh': '#!/bin/sh\r',
    'lf.sh': '#!/bin/none\necho a\r\n',
    'no-shebang.sh': 'echo a\r\n',
    'empty.sh': '',
  })
  for (const [printed, isExplained] of [
    ['sh: 1: ./crlf.sh: not found', true],
    ['iterion-node: 9: exec: ./crlf.sh: not found', true],
    ['bash: line 1: ./crlf.sh: cannot execute: required file not found', true],
    ['bash: ./crlf.sh: No such file or directory', true],
    [`make: ${folder}/crlf.sh: No such file or directory\nmake: *** [all] Error 127`, true],
    ["env: './crlf.sh': No such file or directory\nenv: use -[v]S to pass options", true],
    ['Error: spawn ./crlf.sh ENOENT\n    at x (y:1:2)', true],
    ["FileNotFoundError: [Errno 2] No such file or directory: './crlf.sh'", true],
    ['sh: 1: ./two words.sh: not found', true],
    ['sh: 1: ./no-end.sh: not found', true],
    ['sh: 1: ./nothing.sh: not found\nsh: 1: ./crlf.sh: not found', true],
    ['sh: 1: ./nothing.sh: not found', false],
    ['sh: 1: ./lf.sh: not found', false],
    ['sh: 1: ./no-shebang.sh: not found', false],
    ['sh: 1: ./empty.sh: not found', false],
    ['sh: 1: .: not found', false],
    ['sh: 1: -x: not found', false],
    ['sh: 1: no-such-program: not found', false],
    ['sh: 1: $(touch made): not found', false],
    ['the thing ./crlf.sh was not found', false],
  ] as const) {
    const { message } = await messageOf(printed, run, folder)
    if (isExplained) t.match(message, HINT, printed)
    else t.equal(message, `post_create ended with 127:\n${printed}`)
  }
  t.notOk((await run({ workdir: folder, command: ['ls', 'made'] } as never, {})).stdout)
})

void tap.test('D-18: line ends of a terminal explain nothing', async (t) => {
  for (const printed of ['fetching 5%\rfetching 100%\r\ndone\r', 'error: no\r', 'a\\rb', 'x^M']) {
    t.notMatch((await messageOf(printed)).message, HINT, printed)
  }
})

void tap.test('nobody who answers is no fault of its own', async (t) => {
  const { message } = await messageOf('sh: 1: ./crlf.sh: not found')
  t.equal(message, 'post_create ended with 127:\nsh: 1: ./crlf.sh: not found')
})
