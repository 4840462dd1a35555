import type { RuntimeName } from '../../door/container-runtime.ts'

/** In what a runtime differs from the others. Each line has a test of its own on the real engine. */
export interface RuntimeDifferences {
  /** A first process that collects orphans: docker ships one, podman needs a program that Debian does not install. */
  readonly hasInit: boolean
  /** podman hands its own proxy variables to every container unless told not to. */
  readonly copiesProxyVariables: boolean
  /** The command line of docker hands on the proxies of its `config.json`, which podman does not read. */
  readonly copiesConfiguredProxies: boolean
  /** How a variable of the image is taken away: docker by its name alone, podman by a flag for it. */
  readonly takesAway: '--env' | '--unsetenv'
  /** Who holds the capabilities that are added to a container: in podman every user, not root alone. */
  readonly arms: 'root' | 'everybody'
  /** docker lets every user of a container listen on low ports; podman starts at 1024. */
  readonly opensLowPorts: boolean
  /** How a file system in memory gets an owner: docker takes numbers, podman only the container's user. */
  readonly tmpfsOwner: 'numbers' | 'user'
  /** podman fills a file system in memory with what the image has in its place unless told not to. */
  readonly fillsTmpfs: boolean
  /** Only an engine that is a process of its own can crash, and forget whose the volumes of an image are. */
  readonly canCrash: boolean
  /** What makes `rm -f` kill at once: podman asks first, and waits ten seconds. */
  readonly killing: readonly string[]
}

export const DIFFERENCES: Readonly<Record<RuntimeName, RuntimeDifferences>> = {
  docker: {
    hasInit: true,
    copiesProxyVariables: false,
    copiesConfiguredProxies: true,
    takesAway: '--env',
    arms: 'root',
    opensLowPorts: true,
    tmpfsOwner: 'numbers',
    fillsTmpfs: false,
    canCrash: true,
    killing: [],
  },
  podman: {
    hasInit: false,
    copiesProxyVariables: true,
    copiesConfiguredProxies: false,
    takesAway: '--unsetenv',
    arms: 'everybody',
    opensLowPorts: false,
    tmpfsOwner: 'user',
    fillsTmpfs: true,
    canCrash: false,
    killing: ['--time=0'],
  },
}
