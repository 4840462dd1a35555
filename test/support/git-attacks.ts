/** In a script: a command that git on the host would run, and that leaves a mark there. */
export const RUN = '@RUN@'
/** In a script: a file of the host that git there might write to. */
export const VICTIM = '@VICTIM@'

/** One way to make git on the host run something, tried inside a sandbox. */
export interface Attack {
  readonly name: string
  /** Runs inside, in the workspace. */
  readonly script: string
  /** `mounts`: cannot be done. `guard`: is put aside after the run. `both`: so is what was prepared for it. */
  readonly stoppedBy: 'mounts' | 'guard' | 'both'
  /** What the workspace is; default: a plain repository. */
  readonly workspace?: 'submodule' | 'worktree' | 'main-of-worktree'
  /** What the operator does besides the usual commands. */
  readonly afterwards?: readonly string[]
}

const evilConfig = (path: string) => `printf '[core]\\n\\tfsmonitor = "${RUN}"\\n' >> ${path}`
const evilCopy = (path: string) => `cp -r .git ${path}; ${evilConfig(`${path}/config`)}`
const evilHook = (path: string) => `printf '#!/bin/sh\\n${RUN}\\n' > ${path}; chmod +x ${path}`
const COMMITS = 'for N in a b; do echo 1 > $N; git add $N; git commit -q -m $N; done'
const STRATEGY = `mkdir git-merge-x; ${evilHook('git-merge-x/y')}`
/** `-git` becomes `.git` in an index: so long a name, and at the same place in the order. */
const oddIndex = (path: string) => `sed -i 's#-git/hooks#.git/hooks#' ${path}`
const ADD_HOOK = `${evilHook('h')}; git update-index --add --cacheinfo "100755,$(git hash-object -w h),-git/hooks/post-checkout"`
const NESTED = `git init -q "$D"; git -C "$D" commit -q --allow-empty -m x; git add "$D"; ${evilConfig('"$D/.git/config"')}`

export const ATTACKS: readonly Attack[] = [
  { name: 'fsmonitor', script: `git config core.fsmonitor '${RUN}'`, stoppedBy: 'mounts' },
  { name: 'append', script: evilConfig('.git/config'), stoppedBy: 'mounts' },
  {
    name: 'rename-over',
    script: `cp .git/config c; ${evilConfig('c')}; mv -f c .git/config`,
    stoppedBy: 'mounts',
  },
  {
    name: 'rename-away',
    script: `cp .git/config c; ${evilConfig('c')}; mv .git/config .git/old && mv c .git/config`,
    stoppedBy: 'mounts',
  },
  {
    name: 'hard-link',
    script: `ln .git/config c && ${evilConfig('c')}; ${evilConfig('/proc/self/cwd/.git/config')}`,
    stoppedBy: 'mounts',
  },
  {
    name: 'remount',
    script: `mount -o remount,rw,bind .git/config; umount .git/config; umount -l .git; ${evilConfig('.git/config')}`,
    stoppedBy: 'mounts',
  },
  {
    name: 'namespace',
    script: `unshare -Urm sh -c 'umount .git/config; mount --bind . /mnt; mount -o remount,rw,bind .git/config; mv .git/config .git/old; cp .git/old .git/config'; unshare -Urm sh -c "${evilConfig('/mnt/.git/config').replaceAll(/(["\\])/g, '\\$1')}"; ${evilConfig('.git/config')}`,
    stoppedBy: 'mounts',
  },
  {
    name: 'hooks-path',
    script: `mkdir h; ${evilHook('h/pre-commit')}; git config core.hooksPath h`,
    stoppedBy: 'mounts',
  },
  {
    name: 'ssh-command',
    script: `git config core.sshCommand '${RUN}'`,
    stoppedBy: 'mounts',
    afterwards: ['fetch', '-q', 'origin'],
  },
  {
    name: 'filter',
    script: `git config filter.x.clean '${RUN}; cat'; echo '* filter=x' > .gitattributes; echo x > x`,
    stoppedBy: 'mounts',
    afterwards: ['add', '.'],
  },
  {
    name: 'alias',
    script: `git config alias.st '!${RUN}'`,
    stoppedBy: 'mounts',
    afterwards: ['st'],
  },
  {
    name: 'external-diff',
    script: `git config diff.external '${RUN}'; echo more >> file`,
    stoppedBy: 'mounts',
  },
  {
    name: 'include',
    script: `${evilConfig('i')}; git config include.path ../i`,
    stoppedBy: 'mounts',
  },
  {
    name: 'include-if',
    script: `${evilConfig('i')}; git config 'includeIf.gitdir:/.path' ../i`,
    stoppedBy: 'mounts',
  },
  { name: 'hook', script: evilHook('.git/hooks/pre-commit'), stoppedBy: 'mounts' },
  {
    name: 'hooks-away',
    script: `mv .git/hooks .git/old; mkdir .git/hooks; ${evilHook('.git/hooks/pre-commit')}`,
    stoppedBy: 'mounts',
  },
  {
    name: 'hooks-link',
    script: `rm -rf .git/hooks; mkdir h; ${evilHook('h/pre-commit')}; ln -s ../h .git/hooks`,
    stoppedBy: 'mounts',
  },
  { name: 'worktree-config', script: evilConfig('.git/config.worktree'), stoppedBy: 'mounts' },
  {
    name: 'attributes',
    script: 'echo "* filter=mine" > .git/info/attributes; echo x > x',
    stoppedBy: 'mounts',
    afterwards: ['add', '.'],
  },
  {
    name: 'info-away',
    script:
      'mv .git/info .git/old; mkdir .git/info; echo "* filter=mine" > .git/info/attributes; echo x > x',
    stoppedBy: 'mounts',
    afterwards: ['add', '.'],
  },
  { name: 'git-away', script: `${evilCopy('e')}; mv .git old; mv e .git`, stoppedBy: 'mounts' },
  {
    name: 'git-file',
    script: `${evilCopy('e')}; mv .git old; echo 'gitdir: e' > .git`,
    stoppedBy: 'both',
  },
  {
    name: 'git-link',
    script: `${evilCopy('e')}; rm -rf .git; mv .git old; ln -s e .git`,
    stoppedBy: 'both',
  },
  {
    name: 'separate',
    script: `git init -q --separate-git-dir e; ${evilConfig('e/config')}`,
    stoppedBy: 'mounts',
  },
  {
    name: 'module-config',
    workspace: 'submodule',
    script: evilConfig('.git/modules/sub/config'),
    stoppedBy: 'mounts',
  },
  {
    name: 'module-hook',
    workspace: 'submodule',
    script: evilHook('.git/modules/sub/hooks/pre-commit'),
    stoppedBy: 'mounts',
    afterwards: ['-C', 'sub', 'commit', '--allow-empty', '-m', 'x'],
  },
  {
    name: 'modules-away',
    workspace: 'submodule',
    script: `cp -r .git/modules e; mv .git/modules .git/old; mv e .git/modules; ${evilConfig('.git/modules/sub/config')}`,
    stoppedBy: 'both',
  },
  {
    name: 'module-file',
    workspace: 'submodule',
    script: `cp -r .git/modules/sub e; ${evilConfig('e/config')}; git config -f e/config core.worktree ../sub; echo 'gitdir: ../e' > sub/.git`,
    stoppedBy: 'both',
  },
  {
    name: 'module-folder-away',
    workspace: 'submodule',
    script: `mkdir s; mv sub old; mkdir sub; cp -r .git/modules/sub e; git config -f e/config core.worktree ../sub; ${evilConfig('e/config')}; echo 'gitdir: ../e' > sub/.git; rm -rf old s`,
    stoppedBy: 'guard',
  },
  {
    name: 'entry-commondir',
    workspace: 'main-of-worktree',
    script: `${evilCopy('e')}; echo "$PWD/e" > .git/worktrees/tree/commondir`,
    stoppedBy: 'both',
  },
  {
    name: 'entry-config',
    workspace: 'main-of-worktree',
    script: evilConfig('.git/worktrees/tree/config.worktree'),
    stoppedBy: 'mounts',
  },
  {
    name: 'entries-away',
    workspace: 'main-of-worktree',
    script: `cp -r .git/worktrees w; mv .git/worktrees .git/old; mv w .git/worktrees; ${evilConfig('.git/worktrees/tree/config.worktree')}`,
    stoppedBy: 'mounts',
  },
  {
    name: 'tree-common',
    workspace: 'worktree',
    script: evilConfig('"$(git rev-parse --git-common-dir)/config"'),
    stoppedBy: 'mounts',
  },
  {
    name: 'tree-hook',
    workspace: 'worktree',
    script: `G=$(git rev-parse --git-common-dir); ${evilHook('$G/hooks/pre-commit')}`,
    stoppedBy: 'mounts',
  },
  {
    name: 'tree-commondir',
    workspace: 'worktree',
    script: `G=$(git rev-parse --git-dir); cp -r "$G/../.." e; ${evilConfig('e/config')}; echo "$PWD/e" > "$G/commondir"`,
    stoppedBy: 'both',
  },
  {
    name: 'tree-config',
    workspace: 'worktree',
    script: evilConfig('"$(git rev-parse --git-dir)/config.worktree"'),
    stoppedBy: 'mounts',
  },
  {
    name: 'tree-file',
    workspace: 'worktree',
    script: `cp -r "$(git rev-parse --git-common-dir)" e; ${evilConfig('e/config')}; rm .git; echo 'gitdir: e' > .git`,
    stoppedBy: 'both',
  },
  { name: 'commondir', script: `${evilCopy('e')}; echo ../e > .git/commondir`, stoppedBy: 'guard' },
  { name: 'nested', script: `D=n; ${NESTED}`, stoppedBy: 'guard' },
  { name: 'nested-deep', script: `mkdir -p a/b; D=a/b/n; ${NESTED}`, stoppedBy: 'guard' },
  { name: 'nested-odd-name', script: `D=$(printf '\\377\\376'); ${NESTED}`, stoppedBy: 'guard' },
  {
    name: 'rebase',
    script: `git checkout -q -b t; GIT_SEQUENCE_EDITOR='echo break >' git rebase -q -i --root; echo "exec ${RUN}" > .git/rebase-merge/git-rebase-todo`,
    stoppedBy: 'guard',
    afterwards: ['rebase', '--continue'],
  },
  {
    name: 'rebase-strategy',
    script: `git checkout -q -b t; ${COMMITS}; GIT_SEQUENCE_EDITOR="sed -i '1s/.*/break/'" git rebase -q -i HEAD~2; ${STRATEGY}; echo x/y > .git/rebase-merge/strategy`,
    stoppedBy: 'guard',
    afterwards: ['rebase', '--continue'],
  },
  {
    name: 'pick-strategy',
    script: `git checkout -q -b t; ${COMMITS}; git checkout -q main; mkdir .git/sequencer; ${STRATEGY}; git rev-parse HEAD | tee .git/sequencer/head > .git/sequencer/abort-safety; git log --reverse --format='pick %h %s' main..t > .git/sequencer/todo; printf '[options]\\n\\tstrategy = x/y\\n' > .git/sequencer/opts`,
    stoppedBy: 'guard',
    afterwards: ['cherry-pick', '--continue'],
  },
  {
    name: 'index',
    script: `${ADD_HOOK}; ${oddIndex('.git/index')}`,
    stoppedBy: 'guard',
    afterwards: ['checkout', '--', '.'],
  },
  {
    name: 'index-4',
    script: `${ADD_HOOK}; git update-index --index-version 4; ${oddIndex('.git/index')}`,
    stoppedBy: 'guard',
    afterwards: ['checkout', '--', '.'],
  },
  {
    name: 'index-split',
    script: `${ADD_HOOK}; git update-index --split-index; ${oddIndex('.git/sharedindex.*')}`,
    stoppedBy: 'guard',
    afterwards: ['checkout', '--', '.'],
  },
  { name: 'log-link', script: `ln -sf ${VICTIM} .git/logs/HEAD`, stoppedBy: 'guard' },
  { name: 'message-link', script: `ln -sf ${VICTIM} .git/COMMIT_EDITMSG`, stoppedBy: 'guard' },
]
