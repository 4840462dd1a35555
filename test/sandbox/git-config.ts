import tap from 'tap'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isHarmlessConfig } from '../../src/sandbox/git-config.ts'
import { git, makeRepository } from '../support/git-repository.ts'

void tap.test('what git itself writes is harmless', async (t) => {
  const folder = makeRepository(join(t.testdir(), 'r'))
  git(folder, 'clone', '-q', folder, join(folder, 'c'))
  const clone = join(folder, 'c')
  git(clone, 'checkout', '-q', '-b', 'topic', '--track', 'origin/main')
  for (const path of [folder, clone]) {
    t.ok(isHarmlessConfig(readFileSync(join(path, '.git/config'), 'utf8')), path)
  }
  t.ok(isHarmlessConfig(''))
  t.ok(isHarmlessConfig('# a\n; b\n\n[core]\n\tbare\n[user]\r\n name = "A \\" B"\r\n'))
  t.ok(isHarmlessConfig('[CORE]\n\tBare = false\n[branch "a.b"]\n\tremote = .\n'))
})

void tap.test('what runs a program, leads elsewhere or is not understood is not', async (t) => {
  const rows = [
    '[core]\nfsmonitor = sh',
    '[core] fsmonitor = sh',
    '[core]\nfilemode = true\n\tFsMonitor=sh',
    '[core]\nhooksPath = x',
    '[core]\nsshCommand = x',
    '[core]\npager = x',
    '[core]\neditor = x',
    '[core]\nworktree = /',
    '[core]\nattributesFile = x',
    '[core]\nexcludesFile = x',
    '[include]\npath = x',
    '[includeIf "gitdir:/"]\npath = x',
    '[filter "x"]\nclean = x',
    '[alias]\nst = !x',
    '[diff]\nexternal = x',
    '[diff "x"]\ntextconv = x',
    '[credential]\nhelper = !x',
    '[gpg]\nprogram = x',
    '[remote "o"]\nuploadpack = x',
    '[remote "o"]\nvcs = x',
    '[url "ext::x"]\ninsteadOf = y',
    '[protocol "ext"]\nallow = always',
    '[submodule "s"]\nupdate = !x',
    '[extensions]\nworktreeConfig = true',
    '[branch "x"]\nmergeoptions = x',
    '[core.fsmonitor]\nx = y',
    '[remote "a"]\nurl = x \\\n[core]\nfsmonitor = x',
    '[remote "a\nb"]\nurl = x',
    'fsmonitor = x',
    '[core]\n=x',
    '[core',
    '\uFEFF[core]\nbare = true',
  ]
  for (const text of rows) t.notOk(isHarmlessConfig(text), text)
})

void tap.test('a submodule says where its files are', async (t) => {
  const text = '[core]\n\tworktree = ../../../sub\n'
  t.notOk(isHarmlessConfig(text))
  t.ok(isHarmlessConfig(text, true))
  t.notOk(isHarmlessConfig(`${text}\tfsmonitor = x\n`, true))
})
