/** Letters first: what begins with a dash is an option to the engine's command line. */
const REFERENCE = /^[A-Za-z0-9][\w.\-/:@]{0,511}$/

/** True if a text can name an image. Whether there is such an image, the engine knows. */
export function isImageReference(text: string): boolean {
  return REFERENCE.test(text)
}
