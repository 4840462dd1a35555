// tap puts hooks around the loading of every module, for its coverage, and into every program that a test starts. Where
// nobody looks at that (`.ci/run`), a test file loads tap before there are hooks, and what it starts has none:
//   NODE_OPTIONS=--import=/…/test/support/quick-start.js
if (process.env.TAP_CHILD_ID !== undefined) {
  delete process.env.NODE_OPTIONS
  await import('tap')
}
