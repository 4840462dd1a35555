import tap from 'tap'
import { localNameKind } from '../../src/policy/local-names.ts'

const TABLE: [string, string | undefined][] = [
  ['localhost', 'loopback'],
  ['a.localhost', 'loopback'],
  ['a.b.localhost', 'loopback'],
  ['localhost.localdomain', 'loopback'],
  ['localhost4', 'loopback'],
  ['ip6-localhost', 'loopback'],
  ['ip6-loopback', 'loopback'],
  ['host.docker.internal', 'loopback'],
  ['gateway.docker.internal', 'loopback'],
  ['host.containers.internal', 'loopback'],
  ['kubernetes.default.svc', 'loopback'],
  ['api.default.svc.cluster.local', 'private'],
  ['metadata', 'metadata'],
  ['metadata.google.internal', 'metadata'],
  ['metadata.goog', 'metadata'],
  ['instance-data', 'metadata'],
  ['instance-data.ec2.internal', 'metadata'],
  ['localhost.test', undefined],
  ['notlocalhost', undefined],
  ['x-localhost', undefined],
  ['metadata.test', undefined],
  ['cluster.local', undefined],
  ['constructor', undefined],
  ['__proto__', undefined],
  ['example.test', undefined],
]

void tap.test(
  'names that stand for the machine, its container host or the cloud are known',
  async (t) => {
    for (const [name, kind] of TABLE) t.equal(localNameKind(name), kind, name)
  },
)
