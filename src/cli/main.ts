import { Argument, Command, CommanderError, Option } from 'commander'
import { EgressError } from '../errors.ts'
import { EXIT, exitCodeOf } from './exit-codes.ts'
import { OWN_FAILURE } from '../sandbox/drive-run.ts'
import type { Io } from './io.ts'
import { packageVersion } from './package-version.ts'
import { addPolicyOptions, collect, JSON_HELP, RESOLVE_HELP } from './policy-flags.ts'
import { renderError, renderJsonError, toEgressError } from './render.ts'
import { addForecastCommands, addRunCommands, RUN_EXIT_HELP } from './run-commands.ts'

export type { Io } from './io.ts'

/** Fixed, so that help reads the same in documents and on every terminal. */
const HELP_WIDTH = 90

const EXIT_HELP = `
Exit codes: 0 yes, 1 no (a denied target, a failing policy test), 2 usage,
3 a file is invalid, 4 the host cannot.`

// What a command needs is loaded when it is called: a run starts as fast as its engine does.

/**
 * Runs a command line, without the program's name in front. Never touches the process: the caller sets the exit code
 * that this answers.
 */
export async function main(argv: readonly string[], io: Io): Promise<number> {
  let code: number = EXIT.yes
  const { words, command } = splitCommand(argv)
  const program = createProgram(io, command, (exitCode) => (code = exitCode))
  try {
    await program.parseAsync(words, { from: 'user' })
    return code
  } catch (error) {
    if (error instanceof CommanderError) return commanderExit(io, argv, error)
    const failure = toEgressError(error)
    if (wantsJson(argv)) io.stdout(renderJsonError(failure))
    else io.stderr(renderError(failure))
    return exitCodeOf(failure)
  }
}

/** Commands that are told what to run. */
const TAKES_COMMAND = new Set(['run', 'wrap', 'plan', 'doctor'])

/** What stands behind their `--` is the command's own, and none of this program's options. */
function splitCommand(argv: readonly string[]): {
  readonly words: readonly string[]
  readonly command: readonly string[] | undefined
} {
  const end = TAKES_COMMAND.has(argv[0] ?? '') ? argv.indexOf('--') : -1
  if (end === -1) return { words: argv, command: undefined }
  return { words: argv.slice(0, end), command: argv.slice(end + 1) }
}

function wantsJson(argv: readonly string[]): boolean {
  const end = argv.indexOf('--')
  return argv.slice(0, end === -1 ? undefined : end).includes('--json')
}

function commanderExit(io: Io, argv: readonly string[], error: CommanderError): number {
  if (error.exitCode === 0) return EXIT.yes
  // Standard output of what runs programs is theirs.
  const print = runsPrograms(argv) ? io.stderr : io.stdout
  if (wantsJson(argv)) {
    print(renderJsonError(new EgressError('USAGE', error.message.replace(/^error: /, ''))))
  }
  return runsPrograms(argv) ? OWN_FAILURE : EXIT.usage
}

/** Commands whose exit codes are those of what they run. */
function runsPrograms([command]: readonly string[]): boolean {
  return command === 'run' || command === 'resume' || command === 'wrap'
}

function createProgram(
  io: Io,
  command: readonly string[] | undefined,
  finish: (code: number) => void,
): Command {
  const program = new Command('iterion-egress')
    .description('The one way out of a sandbox: an HTTP proxy that decides by rules and says why.')
    .version(packageVersion(), '-V, --version')
    .exitOverride()
    .configureOutput({
      writeOut: io.stdout,
      writeErr: io.stderr,
      getOutHelpWidth: () => HELP_WIDTH,
      getErrHelpWidth: () => HELP_WIDTH,
    })
    .configureHelp({ optionDescription: describeOption })
    .showHelpAfterError('(--help says more)')
    .addHelpText('after', EXIT_HELP)

  addPolicyOptions(program.command('serve').description('run a proxy until SIGTERM or Ctrl-C'))
    .option(
      '--listen <host:port>',
      'where to listen; port 0 lets the system choose',
      '127.0.0.1:3128',
    )
    .option('--token <token>', 'what clients have to show; ITERION_EGRESS_TOKEN is the same')
    .option('--token-file <file>', 'a file that holds the token')
    .option('--insecure-no-auth', 'listen beyond loopback without a token')
    .option('--events <file>', 'write events as JSON lines; - is standard output')
    .option('--audit', 'record allowed requests too')
    .option('--run-id <id>', 'the run_id of events')
    .option('--ready-file <file>', 'write one JSON line when the proxy accepts')
    .option('--limit <name=number>', 'a limit of docs/proxy.md (repeatable)', collect, [])
    .addOption(
      new Option('--relay <kind>', 'how bytes are read; pooled is the fast way').choices([
        'pooled',
        'streams',
      ]),
    )
    .option('--resolve <map>', RESOLVE_HELP, collect, [])
    .option('--workers <n>', 'processes that serve as one proxy, 1 to 64', '1')
    .option('--json', JSON_HELP)
    .action(async (options) => {
      const { runServe } = await import('./command-serve.ts')
      finish(await runServe(io, options))
    })

  addPolicyOptions(
    program
      .command('test')
      .description('decide targets and run the tests of a policy; asks no DNS'),
  )
    .argument(
      '[target...]',
      'host, host:port, [v6]:port or URL; - reads one a line from standard input',
    )
    .option('--resolve <map>', RESOLVE_HELP, collect, [])
    .option('--json', JSON_HELP)
    .action(async (targets, options) => {
      const { runTest } = await import('./command-test.ts')
      finish(await runTest(io, targets, options))
    })

  addPolicyOptions(program.command('explain').description('say how a policy comes to its verdict'))
    .argument('<target>', 'host, host:port, [v6]:port or URL')
    .option('--resolve <map>', RESOLVE_HELP, collect, [])
    .option('--json', JSON_HELP)
    .action(async (target, options) => {
      const { runExplain } = await import('./command-explain.ts')
      finish(runExplain(io, target, options))
    })

  addPolicyOptions(
    program.command('lint').description('find what is wrong with policy and preset files'),
  )
    .argument('[file...]', 'policy or preset files')
    .option('--strict', 'warnings fail')
    .option('--json', JSON_HELP)
    .action(async (files, options) => {
      const { runLint } = await import('./command-lint.ts')
      finish(runLint(io, files, options))
    })

  const presets = program.command('presets').description('look at presets')
  presets
    .command('list')
    .description('the presets there are')
    .option('--preset-dir <dir>', 'a folder with more presets (repeatable)', collect, [])
    .option('--json', JSON_HELP)
    .action(async (options) => {
      const { runPresetsList } = await import('./command-presets.ts')
      finish(runPresetsList(io, options))
    })
  presets
    .command('show')
    .description('the rules of a preset, with why they are there')
    .argument('<name>', 'a name or a path')
    .option('--preset-dir <dir>', 'a folder with more presets (repeatable)', collect, [])
    .option('--json', JSON_HELP)
    .action(async (name, options) => {
      const { runPresetsShow } = await import('./command-presets.ts')
      finish(runPresetsShow(io, name, options))
    })

  addRunCommands(program, io, command, finish)
  addWrapCommand(program, io, command, finish)
  addForecastCommands(program, io, command, finish)

  program
    .command('schema')
    .description('print a JSON Schema')
    .addArgument(new Argument('<name>', 'which').choices(['policy', 'preset', 'events']))
    .action(async (name) => {
      const { runSchema } = await import('./command-schema.ts')
      finish(runSchema(io, name))
    })
  return program
}

/** The command that seals one program of this machine. */
function addWrapCommand(
  program: Command,
  io: Io,
  command: readonly string[] | undefined,
  finish: (code: number) => void,
): void {
  addPolicyOptions(
    program
      .command('wrap')
      .description('seal a program of this machine; hostile code belongs in run')
      .usage('[options] -- <command>')
      .showHelpAfterError('(the command stands behind --; --help says more)'),
  )
    .option('--resolve <map>', RESOLVE_HELP, collect, [])
    .option('--audit', 'say at the end what was allowed and denied, on standard error')
    .option('--events <file>', 'write events as JSON lines')
    .option('--user <name>', 'for root: who the command runs as (default: nobody)')
    .option('--as-root', 'for root: the command stays root, which can walk out by files')
    .option('--json', 'print the audit, or the failure, as JSON on standard error')
    .addHelpText('after', RUN_EXIT_HELP)
    .action(async (options) => {
      const { runWrap } = await import('./command-wrap.ts')
      finish(await runWrap(io, command, options))
    })
}

/** The description with choices and default; that a list starts empty needs no words. */
function describeOption({ description, argChoices, defaultValue }: Option): string {
  const more: string[] = []
  if (argChoices) more.push(argChoices.join(', '))
  if (typeof defaultValue === 'string') more.push(`default: ${defaultValue}`)
  return more.length > 0 ? `${description} (${more.join('; ')})` : description
}
