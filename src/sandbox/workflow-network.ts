import { type ParseOptions, type PolicySource, readPolicyPart } from '../policy/parse.ts'
import type { YamlSource } from '../policy/yaml-source.ts'
import { isMap } from './is-map.ts'

const NETWORK = ['sandbox', 'network']
/** What may stand beside `mode: open` in `network:`. */
const OPEN_KEYS = new Set(['mode', 'version'])

/**
 * Reads `sandbox: network:` of a workflow, by the code of policy files. An empty one is a policy that allows nothing.
 * What is wrong with it is reported to the file.
 */
export function readWorkflowNetwork(
  source: YamlSource,
  value: unknown,
  options: ParseOptions,
): 'open' | PolicySource | undefined {
  if (!isMap(value) || !isMap(value['sandbox']) || !Object.hasOwn(value['sandbox'], 'network')) {
    return undefined
  }
  const network = value['sandbox']['network']
  if (network === 'open') return 'open'
  if (network !== null && !isMap(network)) {
    const message = `sandbox.network is ${JSON.stringify(network)}; expected open, or a map with the keys of a policy file`
    source.report('WORKFLOW_SHAPE', NETWORK, message)
    return undefined
  }
  const policy = readPolicyPart(source.part(NETWORK), options)
  if (network?.['mode'] !== 'open') return policy
  for (const key of Object.keys(network).filter((one) => !OPEN_KEYS.has(one))) {
    source.reportKey(
      'POLICY_RULE',
      NETWORK,
      key,
      `an open network has no proxy: ${JSON.stringify(key)} beside it would not hold`,
    )
  }
  return 'open'
}
