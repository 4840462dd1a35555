import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { put } from './deb-repository.ts'

/**
 * Makes a system of its own for apt and dpkg, in an empty folder: nothing of the machine is read or changed.
 *
 * @param caFile the certificate authority of its archive
 * @param origin where its archive is
 * @returns the file that `APT_CONFIG` has to name
 */
export function makeAptSystem(root: string, caFile: string, origin: string): string {
  const at = (path: string) => join(root, path)
  put(at('etc/apt/sources.list'), `deb [trusted=yes] ${origin}/ ./\n`)
  put(at('var/lib/dpkg/status'), '')
  for (const folder of [
    'etc/apt/apt.conf.d',
    'etc/apt/preferences.d',
    'etc/apt/sources.list.d',
    'etc/apt/trusted.gpg.d',
    'var/lib/apt/lists/partial',
    'var/cache/apt/archives/partial',
    'var/lib/dpkg/updates',
    'var/lib/dpkg/info',
    'var/log/apt',
  ]) {
    mkdirSync(at(folder), { recursive: true })
  }
  const forced = ['not-root', 'bad-path', 'script-chrootless', 'unsafe-io']
  const dpkg = [
    `--root=${root}`,
    `--admindir=${at('var/lib/dpkg')}`,
    `--log=${at('var/log/dpkg.log')}`,
    ...forced.map((what) => `--force-${what}`),
  ]
  // This file is read before those of /etc/apt, and leads apt away from them.
  put(
    at('apt.conf'),
    [
      `Dir "${root}/";`,
      `Dir::State::status "${at('var/lib/dpkg/status')}";`,
      'Dir::Bin::methods "/usr/lib/apt/methods";',
      `Acquire::https::CaInfo "${caFile}";`,
      'Acquire::Retries "0";',
      'Acquire::Languages "none";',
      'APT::Sandbox::User "root";',
      'APT::Sandbox::Seccomp "false";',
      ...dpkg.map((option) => `DPkg::Options:: "${option}";`),
    ].join('\n'),
  )
  return at('apt.conf')
}
