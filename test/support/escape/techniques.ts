import { DIRECT } from './direct-techniques.ts'
import { FILES } from './file-techniques.ts'
import { KERNEL } from './kernel-techniques.ts'
import { PROXIED } from './proxied-techniques.ts'
import { NODE_PRELUDE, type Technique } from './technique.ts'
import { DISTURBING, UNAWARE } from './unaware-techniques.ts'

/** All techniques. Their names are unique. */
export const TECHNIQUES: readonly Technique[] = [
  ...DIRECT,
  ...PROXIED,
  ...UNAWARE,
  ...KERNEL,
  ...FILES,
  ...DISTURBING,
]

/** What has to work in every run: a network that is broken is no seal. */
export const WELCOMED: readonly Pick<Technique, 'name' | 'by' | 'script'>[] = [
  { name: 'HTTP', by: 'sh', script: 'curl -s --max-time 5 http://allowed.test/allowed' },
  {
    name: 'TLS',
    by: 'sh',
    script: 'curl -s --max-time 5 --cacert ca.pem https://allowed.test/allowed',
  },
]

/** What has to work past the proxy port in every sealed run. */
export const WELCOMED_UNAWARE: typeof WELCOMED = [
  {
    name: 'HTTP, unaware',
    by: 'sh',
    script: "curl -s --max-time 5 --noproxy '*' http://allowed.test/allowed",
  },
  {
    name: 'TLS, unaware',
    by: 'sh',
    script: "curl -s --max-time 5 --noproxy '*' --cacert ca.pem https://allowed.test/allowed",
  },
]

/** The words that run a technique. */
export function commandOf({ by, script }: Pick<Technique, 'by' | 'script'>): readonly string[] {
  switch (by) {
    case 'sh':
      return ['sh', '-c', script]
    case 'node':
      return ['node', '-e', NODE_PRELUDE + script]
    case 'perl':
      return ['perl', '-e', script]
    case 'python3':
      return ['python3', '-c', script]
  }
}
