import { z } from 'zod'
import type { WorkspaceGuard } from './workspace-guard.ts'

const guardSchema = z.object({
  snapshots: z.array(
    z.object({
      workspace: z.string(),
      folders: z.array(z.string()),
      prints: z.record(z.string(), z.string()),
    }),
  ),
  made: z.array(z.string()),
})

/** A guard as it is recorded with its run. */
export function readGuard(text: string): WorkspaceGuard {
  return guardSchema.parse(JSON.parse(text))
}
