import { EgressError } from '../errors.ts'

/** How long the end of a place may come after that of a command in it, in milliseconds. */
const LOST_WAIT_MS = 1_000

/**
 * What came of a command in a place that may go. One of which nobody knows how it ended may have gone with its place: that
 * is then the reason.
 *
 * @throws what `work` throws, or what `lost` says
 */
export async function orLost<T>(work: Promise<T>, lost: Promise<never> | undefined): Promise<T> {
  if (lost === undefined) return work
  try {
    return await Promise.race([work, lost])
  } catch (error) {
    if (error instanceof EgressError && error.code === 'NODE_FAILED') {
      await Promise.race([lost, new Promise((resolve) => setTimeout(resolve, LOST_WAIT_MS))])
    }
    throw error
  }
}
