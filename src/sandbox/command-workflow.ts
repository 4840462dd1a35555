import { EgressError } from '../errors.ts'
import { isImageReference } from './image-reference.ts'
import { EMPTY_BLOCK, type Workflow } from './spec.ts'

/** What a command line says that is a workflow of its own. Its policy is a file beside it. */
export interface CommandLineParts {
  readonly image?: string | undefined
  /** The words of the command, at least one. */
  readonly command: readonly string[]
}

/**
 * The workflow of one node, `command`, that a command line means. It says image and command; a policy has a digest
 * of its own when it is compiled.
 *
 * @throws {EgressError} OPTION_INVALID for an image that cannot be one, an empty command
 */
export function commandWorkflow({ image, command }: CommandLineParts): Workflow {
  if (image !== undefined && !isImageReference(image)) {
    throw new EgressError(
      'OPTION_INVALID',
      `--image ${JSON.stringify(image)}: that cannot be the name of an image`,
    )
  }
  const [program = ''] = command
  if (program === '') throw new EgressError('OPTION_INVALID', 'name a command to run, behind --')
  return {
    file: 'the command line',
    name: 'command',
    sandbox: image === undefined ? undefined : { ...EMPTY_BLOCK, mode: 'inline', image },
    attachments: [],
    secrets: [],
    nodes: [{ id: 'command', backend: 'tool', command, fallback: [] }],
    said: { image: image ?? null, command },
  }
}
