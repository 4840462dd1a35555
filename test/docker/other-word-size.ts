import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import tap from 'tap'
import { NO_ENGINE, TEST_IMAGE } from '../support/docker.ts'
import { openDesk } from '../support/sandbox-run.ts'

/**
 * Asks for a vsock socket by way of the 32-bit `socketcall`, whose arguments no filter sees. Ends with 0 if it got one;
 * nothing is sent through it.
 */
const PROGRAM = `
static unsigned arguments[3] = { 40, 1, 0 };
void _start(void) {
  long result;
  __asm__ volatile("int $0x80" : "=a"(result) : "a"(102L), "b"(1L), "c"(arguments) : "memory");
  __asm__ volatile("syscall" : : "a"(60L), "D"((int)result < 0 ? 1L : 0L));
}
`

void tap.test(
  'a program of another word size makes no socket past the filter',
  { skip: NO_ENGINE || (process.arch !== 'x64' && 'the program is for x64') },
  async (t) => {
    const desk = openDesk(t)
    writeFileSync(path.join(desk.folder, 'program.c'), PROGRAM)
    const program = path.join(desk.workspace, 'program')
    execFileSync('cc', ['-nostdlib', '-static', '-no-pie', '-o', program, 'program.c'], {
      cwd: desk.folder,
    })
    const mount = `type=bind,source=${desk.workspace},target=/w`
    const control = ['run', '--rm', '--network=none', '--security-opt=seccomp=unconfined']
    execFileSync('docker', [...control, '--mount', mount, TEST_IMAGE, '/w/program'])
    t.pass('without a filter it gets one')
    const { code } = await desk.runCommand([], ['./program'])
    t.equal(code, 159, 'with ours it is killed by SIGSYS')
  },
)
