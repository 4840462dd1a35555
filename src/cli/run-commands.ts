import { type Command, Option } from 'commander'
import { MODES } from '../sandbox/spec.ts'
import type { Io } from './io.ts'
import { collect, JSON_HELP, RESOLVE_HELP } from './policy-flags.ts'

const PLAN_EXIT_HELP = `
Exit codes: 0 it would start, 1 it would not, 2 usage.`

const DOCTOR_EXIT_HELP = `
Exit codes: 0 no check failed, 1 one did, 2 usage.`

/** The exit codes of what runs programs. */
export const RUN_EXIT_HELP = `
Exit codes: the command's own, 128+N for signal N, 125 for everything that is not the command's.`

/** The commands that make, show and end runs. */
export function addRunCommands(
  program: Command,
  io: Io,
  command: readonly string[] | undefined,
  finish: (code: number) => void,
): void {
  const addCommon = (one: Command) =>
    one
      .option('--env <name[=value]>', 'a variable for this run (repeatable)', collect, [])
      .option('-i, --interactive', 'hand standard input to the command')
      .option('-t, --tty', 'give the command a terminal')
      .option('--schedule-record <file>', 'a JSON file that is told how the run ended')
      .option('--json', 'print the record of the run as JSON on standard error')

  addCommon(
    addRunOptions(
      program
        .command('run')
        .description('run a workflow in a sandbox, or the one command behind --')
        .usage('[options] [workflow] | [options] --image <image> -- <command>')
        .showHelpAfterError('(a command stands behind --; --help says more)'),
    ),
  )
    .addHelpText('after', RUN_EXIT_HELP)
    .action(async (file, options) => {
      const { runRun } = await import('./command-run.ts')
      finish(await runRun(io, file, command, options))
    })

  addCommon(
    program
      .command('resume')
      .description('go on with a run where it stopped')
      .argument('<id>', 'the run')
      .option('--accept-changes', 'also if the workflow or its policy changed since'),
  )
    .addHelpText('after', RUN_EXIT_HELP)
    .action(async (id, options) => {
      const { runResume } = await import('./command-run.ts')
      finish(await runResume(io, id, options))
    })

  const runs = program.command('runs').description('look at runs and stop them')
  runs
    .command('list')
    .description('the runs there are, the latest first')
    .option('--json', JSON_HELP)
    .action(async (options) => {
      const { runRunsList } = await import('./command-runs.ts')
      finish(runRunsList(io, options))
    })
  runs
    .command('show')
    .description('one run')
    .argument('<id>', 'the run')
    .option('--events', 'print its events')
    .option('--json', JSON_HELP)
    .action(async (id, options) => {
      const { runRunsShow } = await import('./command-runs.ts')
      finish(runRunsShow(io, id, options))
    })
  runs
    .command('stop')
    .description('end a run')
    .argument('<id>', 'the run')
    .action(async (id) => {
      const { runRunsStop } = await import('./command-runs.ts')
      finish(await runRunsStop(io, id))
    })

  program
    .command('reap')
    .description('remove what runs left behind whose process is gone')
    .option('--json', JSON_HELP)
    .action(async (options) => {
      const { runReap } = await import('./command-runs.ts')
      finish(await runReap(io, options))
    })
}

/** The words of `run` that decide; `plan` has the same. */
function addRunOptions(command: Command) {
  return command
    .argument('[workflow]', 'the workflow file')
    .option('--image <image>', 'the image for the command behind --')
    .option(
      '--policy <file>',
      'the policy for the command behind --; without it the network is open',
    )
    .option('--preset-dir <dir>', 'a folder with more presets (repeatable)', collect, [])
    .addOption(new Option('--sandbox <mode>', 'goes before what the workflow says').choices(MODES))
    .option('--sandbox-default-image <image>', 'the image of the mode auto')
    .addOption(
      new Option('--sandbox-host-state <state>', "whether the agent's state is bound").choices([
        'auto',
        'none',
      ]),
    )
    .addOption(
      new Option('--door <door>', 'how the sandbox reaches the proxy')
        .choices(['auto', 'netns', 'sidecar', 'advisory'])
        .default('auto'),
    )
    .option('--sidecar-image <image>', 'the image of the sidecar door')
    .option('--workspace <dir>', 'the folder that the sandbox works in; default: this one')
    .option('--resolve <map>', RESOLVE_HELP, collect, [])
}

/** Words of `run` that decide nothing, so that a command line of `run` can be asked about as it is. */
function addIdleOptions<T extends Command>(command: T): T {
  return command
    .addOption(new Option('-i, --interactive').hideHelp())
    .addOption(new Option('-t, --tty').hideHelp())
    .addOption(new Option('--schedule-record <file>').hideHelp())
}

/** The commands that say beforehand what a run would be. */
export function addForecastCommands(
  program: Command,
  io: Io,
  command: readonly string[] | undefined,
  finish: (code: number) => void,
): void {
  addRunOptions(
    addIdleOptions(
      program
        .command('plan')
        .description('say what run would do with the same words, without doing it')
        .usage('[options] [workflow] | [options] --image <image> -- <command>')
        .showHelpAfterError('(a command stands behind --; --help says more)'),
    ),
  )
    .option('--env <name[=value]>', 'a variable for the run (repeatable)', collect, [])
    .option('--json', JSON_HELP)
    .addHelpText('after', PLAN_EXIT_HELP)
    .action(async (file, options) => {
      const { runPlan } = await import('./command-plan.ts')
      finish(await runPlan(io, file, command, options))
    })

  addRunOptions(
    addIdleOptions(
      program
        .command('doctor')
        .description('look at everything that a run needs, before there is one')
        .usage('[options] [workflow] | [options] --image <image> -- <command>')
        .showHelpAfterError('(a command stands behind --; --help says more)'),
    ),
  )
    .option('--env <name[=value]>', 'a variable for the run (repeatable)', collect, [])
    .option('--strict', 'ask the registry for an image that is not here, and try the doors')
    .addOption(
      new Option('--target <machine>', 'local: for a machine with a runtime, be it another one')
        .choices(['auto', 'local'])
        .default('auto'),
    )
    .option('--json', JSON_HELP)
    .addHelpText('after', DOCTOR_EXIT_HELP)
    .action(async (file, options) => {
      const { runDoctor } = await import('./command-doctor.ts')
      finish(await runDoctor(io, file, command, options))
    })
}
