/** Settings that git writes itself when a repository is made, cloned or branched, and that make it run nothing. */
const HARMLESS = [
  /^core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol)$/,
  /^extensions\.(?:objectformat|refstorage)$/,
  /^remote\..*\.(?:url|pushurl|fetch|tagopt|prune|mirror)$/,
  /^branch\..*\.(?:remote|merge|rebase|description|vscode-merge-base)$/,
  /^submodule\.(?:.*\.)?(?:url|active|branch)$/,
  /^user\.(?:name|email)$/,
  /^init\.defaultbranch$/,
  /^(?:pull\.rebase|push\.default|gc\.auto)$/,
]

/** Of the repository of a submodule, git also writes where its files are. */
const MODULE = /^core\.worktree$/

/** Whether a git configuration holds nothing but settings that run no program and lead nowhere. */
export function isHarmlessConfig(text: string, isModule = false): boolean {
  return harmfulLines(text, isModule).length === 0
}

/**
 * The settings of a git configuration by which git may run a program or be led elsewhere, each with its section. What
 * this reader does not understand is one of them, and so is all that follows: it reads less than git does.
 */
export function harmfulLines(text: string, isModule = false): readonly string[] {
  const harmful: string[] = []
  let section = ''
  const lines = text.split('\n').map((line) => line.replaceAll(/^[ \t]+|[ \t\r]+$/g, ''))
  for (const [index, line] of lines.entries()) {
    if (line === '' || line.startsWith('#') || line.startsWith(';')) continue
    const header = /^\[([a-z0-9.-]+)(?: "((?:[^"\\]|\\["\\])*)")?\]$/i.exec(line)
    if (header) {
      section = `${(header[1] ?? '').toLowerCase()}.${header[2] === undefined ? '' : `${header[2]}.`}`
      continue
    }
    const name = /^([a-z][a-z0-9-]*)(?:\s*=.*)?$/i.exec(line)?.[1]
    // A value that goes on in the next line may hide one.
    if (name === undefined || section === '' || line.endsWith('\\')) {
      return [...harmful, section, ...lines.slice(index)]
    }
    const key = section + name.toLowerCase()
    const isHarmless = HARMLESS.some((one) => one.test(key)) || (isModule && MODULE.test(key))
    if (!isHarmless) harmful.push(section + line)
  }
  return harmful
}
