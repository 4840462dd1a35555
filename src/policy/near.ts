/** How many single-character edits lie between two texts. */
function editDistance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, i) => i)
  for (let i = 1; i <= a.length; i++) {
    const next = [i]
    for (let j = 1; j <= b.length; j++) {
      const swap = (row[j - 1] ?? 0) + (a[i - 1] === b[j - 1] ? 0 : 1)
      next.push(Math.min(swap, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[b.length] ?? 0
}

/** The known words that somebody may have meant by a word, the nearest first, three at most. */
export function nearWords(word: string, known: Iterable<string>): string[] {
  const wanted = word.slice(0, 64).toLowerCase()
  return [...known]
    .map((one) => ({ one, distance: editDistance(wanted, one.toLowerCase()) }))
    .filter(({ one, distance }) => distance <= Math.max(2, one.length / 3) || one.includes(wanted))
    .toSorted((a, b) => a.distance - b.distance)
    .slice(0, 3)
    .map(({ one }) => one)
}
