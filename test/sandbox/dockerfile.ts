import tap from 'tap'
import { isFetchingTrigger, leavesNetwork, readDockerfile } from '../../src/sandbox/dockerfile.ts'

void tap.test('the images that a build starts from', async (t) => {
  const rows: [text: string, bases: string[]][] = [
    ['FROM a', ['a']],
    [
      'from a:1 as x\nRUN true\nFROM x\nFROM b@sha256:00 AS y\nCOPY --from=x / /\nFROM y',
      ['a:1', 'b@sha256:00'],
    ],
    ['FROM --platform=linux/amd64 a', ['a']],
    ['FROM scratch', []],
    ['ARG BASE=a\nARG TAG="1"\nFROM $BASE:${TAG}', ['a:1']],
    ['ARG BASE\nFROM ${BASE:-a}', ['a']],
    ['ARG GIVEN=a\nFROM $GIVEN', ['b']],
    ['FROM a \\\n # a comment\n\n AS x', ['a']],
    ['# escape=`\nFROM a`\n:1', ['a:1']],
    ['#syntax=x\n# escape=`\nFROM a', ['a']],
    ['# FROM x\r\nFROM a\r\n', ['a']],
    ['FROM a\nFROM a', ['a']],
  ]
  for (const [text, bases] of rows) {
    t.strictSame(readDockerfile(text, { GIVEN: 'b' }).bases, bases, text)
  }
})

void tap.test('what the engine would fetch itself', async (t) => {
  const fetched = [
    'ADD http://a.test/x /',
    'add HTTPS://a.test/x /',
    'ADD ["http://a.test/x", "/"]',
    'ADD --chown=1:1 http://a.test/x /',
    'ADD $URL /',
    'ADD git@a.test:x.git /',
    'ADD \\\n  http://a.test/x /',
    'ADD a \\\n# comment\n  http://a.test/x /',
    'ADD http:\\/\\/a.test/x /',
    'ADD ht"tp:"//a.test/x /',
    "ADD http:'//'a.test/x /",
    'ADD ["http:\\u002f\\u002fa.test/x", "/"]',
    'AD\\\nD http://a.test/x /',
    '\u{85}ADD http://a.test/x /',
    '\u{a0}ADD http://a.test/x /',
    'ONBUILD ADD http://a.test/x /',
    'onbuild   add $X /',
  ]
  for (const text of fetched) {
    t.match(readDockerfile(`FROM a\n${text}`, {}).fetches, [{ line: 2 }], text)
  }
  for (const text of [
    'ADD a.tar /',
    'ADD ["a b.tar", "/c"]',
    'ADD --chown=1:1 dir/*.tar /',
    'COPY http /',
    'RUN curl http://a.test',
    '# ADD http://a.test/x /',
    'ENV ADD=http://a.test',
    'ONBUILD RUN curl http://a.test',
    'LABEL x="ADD http://a.test"',
  ]) {
    t.strictSame(readDockerfile(`FROM a\n${text}`, {}).fetches, [], text)
  }
})

void tap.test('a line that is no directive ends the directives', async (t) => {
  const text = '# a=b\n# escape=`\nFROM a\nADD \\\n http://a.test/x /\n'
  t.match(readDockerfile(text, {}).fetches, [{ line: 4 }])
})

void tap.test('what an image adds, and what leads a newer builder elsewhere', async (t) => {
  for (const one of ['ADD http://a.test/x /', ' add $X /', '\u{85}ADD http://a.test/x /']) {
    t.ok(isFetchingTrigger(one), one)
  }
  for (const one of ['ADD a /', 'RUN curl http://a.test', 'COPY a /']) {
    t.notOk(isFetchingTrigger(one), one)
  }
  for (const one of ['# syntax=x/y\nFROM a', '#SYNTAX = x', 'RUN --network=default true']) {
    t.ok(leavesNetwork(one), one)
  }
  t.notOk(leavesNetwork('FROM a\nRUN true\n'))
})
