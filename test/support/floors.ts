/** What a folder of src may import. */
export interface Floor {
  /** The folders, and the files beside them, whose files may be imported. */
  readonly floors: readonly string[]
  /** The packages, and which files of the folder may import each; `*` is all of them. */
  readonly packages: Readonly<Record<string, readonly string[]>>
}

/** Every folder of src, and the files beside them. docs/architecture.md has the picture. */
export const FLOORS: Readonly<Record<string, Floor>> = {
  'errors.ts': { floors: [], packages: {} },
  'debugger.ts': { floors: [], packages: {} },
  policy: {
    floors: ['errors.ts'],
    packages: {
      minimatch: ['pattern.ts'],
      tldts: ['width.ts'],
      yaml: ['yaml-source.ts'],
      zod: ['schema.ts', 'shape-problems.ts'],
      'node:crypto': ['compile.ts'],
      'node:url': ['host.ts', 'pattern.ts'],
    },
  },
  events: {
    floors: ['errors.ts', 'policy'],
    packages: { pino: ['event-log.ts'], zod: ['event.ts'], 'node:fs': ['event-log.ts'] },
  },
  presets: {
    floors: ['errors.ts', 'policy'],
    packages: {
      'node:crypto': ['compiled.ts'],
      'node:fs': ['catalog.ts', 'compiled.ts', 'confine.ts', 'read-source.ts'],
      'node:path': ['*'],
      'node:url': ['*'],
    },
  },
  proxy: {
    floors: ['errors.ts', 'policy', 'events'],
    packages: {
      'node:crypto': ['authenticate.ts', 'egress-proxy.ts'],
      'node:dns/promises': ['look-up.ts'],
      'node:fs': ['limits.ts'],
      'node:http': ['*'],
      'node:net': ['*'],
      'node:os': ['local-addresses.ts'],
      'node:stream': ['*'],
    },
  },
  door: {
    floors: ['errors.ts', 'debugger.ts', 'policy', 'events', 'presets', 'proxy'],
    packages: {
      'dns-packet': ['dns-message.ts'],
      // But for `spawn.ts` types alone.
      'node:child_process': [
        'process-seal.ts',
        'seal-helper.ts',
        'spawn.ts',
        'standard-streams.ts',
        'wrap-helper.ts',
      ],
      'node:tty': ['standard-streams.ts'],
      'node:crypto': ['sidecar-door.ts'],
      'node:dgram': ['*'],
      'node:fs': [
        'container-namespace.ts',
        'inherited-streams.ts',
        'probe-inside.ts',
        'seal-places.ts',
        'seal-remedy.ts',
        'seal-sockets.ts',
        'sidecar-door.ts',
        'standard-streams.ts',
        'wrap-helper.ts',
      ],
      'node:net': ['*'],
      'node:path': ['program-file.ts', 'seal-places.ts', 'seal-sockets.ts', 'sidecar-door.ts'],
    },
  },
  workers: {
    floors: ['errors.ts', 'policy', 'events', 'proxy'],
    packages: { 'node:cluster': ['worker-process.ts'], 'node:net': ['leased-slots.ts'] },
  },
  sandbox: {
    floors: ['errors.ts', 'policy', 'events', 'presets', 'proxy', 'door'],
    packages: {
      zod: ['guard-record.ts', 'run-record.ts', 'workflow-schema.ts'],
      'jsonc-parser': ['devcontainer/jsonc-source.ts'],
      // Types alone: programs are started through `door/spawn.ts`, and test/hermetic.ts sees to it.
      'node:child_process': [
        'driver.ts',
        'drivers/docker.ts',
        'node-process.ts',
        'run-plan.ts',
        'sandbox.ts',
      ],
      'node:crypto': [
        'build-tag.ts',
        'digest.ts',
        'doctor-doors.ts',
        'git-dangers.ts',
        'random-word.ts',
        'run-store.ts',
      ],
      'node:fs': [
        'build-image.ts',
        'build-tag.ts',
        'devcontainer/find-devcontainer.ts',
        'devcontainer/judge-mounts.ts',
        'drivers/docker.ts',
        'drivers/find-runtime.ts',
        'git-dangers.ts',
        'git-mounts.ts',
        'git-place.ts',
        'maker.ts',
        'mount-rules.ts',
        'paths.ts',
        'process-identity.ts',
        'raw-path.ts',
        'run-archive.ts',
        'run-store.ts',
        'schedule-record.ts',
        'scratch.ts',
        'secrets.ts',
        'status-file.ts',
      ],
      // The numbers of signals.
      'node:os': ['drive-run.ts', 'node-process.ts'],
      'node:path': ['*'],
      'node:fs/promises': ['build-tag.ts'],
      'node:stream': ['node-process.ts'],
      'node:stream/promises': ['build-tag.ts'],
    },
  },
  cli: {
    floors: [
      'errors.ts',
      'debugger.ts',
      'policy',
      'events',
      'presets',
      'proxy',
      'door',
      'workers',
      'sandbox',
    ],
    packages: {
      commander: ['main.ts', 'policy-flags.ts', 'run-commands.ts'],
      // Types alone.
      'node:child_process': ['io.ts'],
      'node:fs': ['announce.ts', 'health.ts', 'package-version.ts'],
      'node:net': ['health.ts'],
      // The numbers of signals.
      'node:os': ['command-run.ts', 'command-wrap.ts', 'system-io.ts'],
      'node:v8': ['tune.ts'],
      'node:path': ['run-request.ts', 'system-io.ts'],
    },
  },
  'index.ts': {
    floors: ['errors.ts', 'policy', 'events', 'presets', 'proxy', 'door', 'sandbox'],
    packages: {},
  },
}
