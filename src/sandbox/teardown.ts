/** One thing that was made and has to go again. */
interface Step {
  readonly name: string
  /** Is told what is left so far, and answers what it could not remove. */
  readonly undo: (
    left: readonly string[],
  ) => Promise<readonly string[] | void> | readonly string[] | void
}

/**
 * What a run made so far. It is undone from the last to the first, each step whatever the others do; a step is put down
 * before the thing is made, so that what was made half way goes too.
 */
export class Teardown {
  readonly #steps: Step[] = []
  #running: Promise<readonly string[]> | undefined

  add(name: string, undo: Step['undo']): void {
    this.#steps.push({ name, undo })
  }

  /** Undoes everything, once. Answers what was left behind. */
  run(): Promise<readonly string[]> {
    this.#running ??= this.#undoAll()
    return this.#running
  }

  async #undoAll(): Promise<readonly string[]> {
    const left: string[] = []
    for (let step = this.#steps.pop(); step; step = this.#steps.pop()) {
      try {
        left.push(...((await step.undo(left)) ?? []))
      } catch (error) {
        left.push(`${step.name}: ${error instanceof Error ? error.message : String(error)}`)
      }
    }
    return left
  }
}
