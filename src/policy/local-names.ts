import type { AddressKind } from './address-kind.ts'

// Names that stand for the machine itself, the container host or a cloud's metadata service, wherever they resolve.
// They are denied in every mode unless a rule names them exactly; the addresses behind them are vetted all the same.

const METADATA_NAMES = new Set([
  'metadata',
  'metadata.google.internal',
  'metadata.goog',
  'metadata.azure.internal',
  'metadata.tencentyun.com',
  'instance-data',
  'instance-data.ec2.internal',
])

const LOCAL_NAMES = new Set([
  'localhost',
  'localhost.localdomain',
  'localhost4',
  'localhost6',
  'ip6-localhost',
  'ip6-loopback',
  'broadcasthost',
  'host.docker.internal',
  'gateway.docker.internal',
  'kubernetes.docker.internal',
  'docker.for.mac.localhost',
  'host.containers.internal',
  'host.lima.internal',
  'host.minikube.internal',
  'kubernetes',
  'kubernetes.default',
  'kubernetes.default.svc',
])

/** What a name stands for by convention (RFC 6761 6.3 for `localhost`), or undefined for an ordinary name. */
export function localNameKind(name: string): AddressKind | undefined {
  if (METADATA_NAMES.has(name)) return 'metadata'
  if (LOCAL_NAMES.has(name) || name.endsWith('.localhost')) return 'loopback'
  return name.endsWith('.cluster.local') ? 'private' : undefined
}
