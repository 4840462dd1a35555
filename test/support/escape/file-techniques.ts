import type { Technique } from './technique.ts'

// What is kept in files: the run store, the folder of the run, the files that are bound in, the metadata of git.

const ELSEWHERE = { kept: 'no run can write there' }
const BOUND = { advisory: ELSEWHERE, open: 'out' } as const

function sh(name: string, script: string, expected: Pick<Technique, 'advisory' | 'open'> = BOUND) {
  const process = {
    left: 'a process seal leaves files as they are: the caller may write the own ones',
  }
  return { name, by: 'sh', script, process, ...expected } as const
}

/** The run that is looked for: one that ended before this one began. */
const RUN = '$ITERION_HOME/runs/$OTHER_RUN'

export const FILES: readonly Technique[] = [
  sh('appending to the events of a run', `echo forged >> ${RUN}/events.jsonl && echo OUT`),
  sh('cutting the events of a run', `: > ${RUN}/events.jsonl && echo OUT`),
  sh('forging the record of a run', `echo '{}' > ${RUN}/run.json && echo OUT`),
  sh('a new file in the folder of a run', `touch ${RUN}/planted && echo OUT`),
  sh(
    'renaming the folder of a run',
    `mv ${RUN} ${RUN}-moved && mv ${RUN}-moved ${RUN} && echo OUT`,
  ),
  sh(
    'renaming the run store',
    `
mv $ITERION_HOME/runs $ITERION_HOME/moved && mv $ITERION_HOME/moved $ITERION_HOME/runs && echo OUT`,
  ),
  sh(
    'a run store in its place',
    `
ln -s /tmp $ITERION_HOME/runs-link && mv -T $ITERION_HOME/runs-link $ITERION_HOME/runs && echo OUT
rm -f $ITERION_HOME/runs-link`,
    {
      advisory: ELSEWHERE,
      open: { kept: 'a link does not replace a folder' },
    },
  ),
  sh('opening the run store to others', `chmod 0777 $ITERION_HOME/runs && echo OUT`),
  sh(
    'files of the host that are bound in',
    `
# Field 4 is the place on the file system of the host, field 5 that in here.
while read -r _ _ _ root target _; do
  case $root in
    # The run's own: its workspace with the parts of git that it may write, its status, what its agents remember.
    $DESK/workspace | $DESK/workspace/.git | $DESK/workspace/.git/info | */status | $DESK/home/.iterion/memory) ;;
    $DESK | $DESK/*)
      if [ -d "$target" ]; then touch "$target/planted" && echo "OUT $target"
      else (exec 3>>"$target") && echo "OUT $target"; fi ;;
  esac
done < /proc/self/mountinfo`,
    {
      advisory: { kept: 'what is bound in is read-only, but for the workspace and its own status' },
      open: 'out',
    },
  ),
  sh('the temporary folder of this program', 'ls $DESK/tmp && echo OUT'),
  sh('up from the workspace', 'cat ../host-secret'),
  sh(
    'settings of git, which name programs',
    'git config --file .git/config core.fsmonitor planted && echo OUT',
  ),
  sh('a hook of git', 'echo planted > .git/hooks/post-checkout && echo OUT'),
  sh('attributes of git', 'echo planted > .git/info/attributes && echo OUT'),
  sh('another folder of git in its place', 'mv .git .git-old && mv .git-old .git && echo OUT'),
  sh('a link in the workspace that leads out', 'ln -sf $SECRET_FILE link && cat link; rm -f link'),
]
