/** One HTTP answer as it came off the wire. */
export interface Answer {
  readonly version: string
  readonly status: number
  readonly phrase: string
  /** Names in lower case, in order. */
  readonly fields: readonly (readonly [name: string, value: string])[]
  /** The content, chunks put together, as latin1. */
  readonly body: string
  readonly trailers: readonly (readonly [name: string, value: string])[]
  /** True if it said its length, or came in chunks. */
  readonly isFramed: boolean
  /** How many bytes it took on the wire. */
  readonly length: number
}

export interface AnswerOptions {
  /** The request's method: an answer to HEAD has no body. */
  readonly method?: string
  /** Takes a 1xx for an answer. */
  readonly interim?: boolean
  /** The answer to a CONNECT: a 200 has no body. */
  readonly connect?: boolean
}

/** The values of a field. */
export function valuesOf(answer: Answer, name: string): string[] {
  return answer.fields.filter(([one]) => one === name).map(([, value]) => value)
}

/** Takes one whole answer from the front; undefined if it is not whole yet. 1xx are passed over. */
export function takeAnswer(
  bytes: Buffer,
  isEnded: boolean,
  options: AnswerOptions = {},
): Answer | undefined {
  const text = bytes.toString('latin1')
  for (let at = 0; ;) {
    const split = text.indexOf('\r\n\r\n', at)
    if (split === -1) return undefined
    const head = readHead(text.slice(at, split))
    const start = split + 4
    if (head.status < 200 && head.status !== 101 && !options.interim) {
      at = start
      continue
    }
    return readBody(text, start, head, isEnded, options)
  }
}

type Head = Pick<Answer, 'version' | 'status' | 'phrase' | 'fields'>

function readHead(text: string): Head {
  const [statusLine = '', ...lines] = text.split('\r\n')
  const match = /^(HTTP\/1\.[01]) (\d{3})(?: (.*))?$/.exec(statusLine)
  if (match === null) throw new Error(`no status line: ${JSON.stringify(statusLine)}`)
  const [, version = '', status = '', phrase = ''] = match
  return { version, status: Number(status), phrase, fields: readFields(lines) }
}

function readBody(
  text: string,
  start: number,
  head: Head,
  isEnded: boolean,
  options: AnswerOptions,
): Answer | undefined {
  const { status, fields } = head
  const bare = { ...head, body: '', trailers: [], isFramed: true, length: start }
  if (status < 200 || status === 204 || status === 304 || options.method === 'HEAD') return bare
  if (options.connect && status === 200) return bare
  const value = (name: string) => fields.find(([one]) => one === name)?.[1]
  if (value('transfer-encoding') !== undefined) {
    const chunked = readChunked(text, start)
    return chunked && { ...head, ...chunked, isFramed: true }
  }
  const size = value('content-length')
  if (size !== undefined) {
    const end = start + Number(size)
    if (text.length < end) return undefined
    return { ...bare, body: text.slice(start, end), length: end }
  }
  if (!isEnded) return undefined
  return { ...bare, body: text.slice(start), isFramed: false, length: text.length }
}

function readFields(lines: readonly string[]): [string, string][] {
  return lines.map((line) => {
    const colon = line.indexOf(':')
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]
  })
}

function readChunked(text: string, start: number) {
  let body = ''
  for (let at = start; ;) {
    const lineEnd = text.indexOf('\r\n', at)
    if (lineEnd === -1) return undefined
    const size = parseInt(text.slice(at, lineEnd), 16)
    at = lineEnd + 2
    if (size > 0) {
      if (text.length < at + size + 2) return undefined
      body += text.slice(at, at + size)
      at += size + 2
      continue
    }
    const lines: string[] = []
    for (;;) {
      const end = text.indexOf('\r\n', at)
      if (end === -1) return undefined
      const line = text.slice(at, end)
      at = end + 2
      if (line === '') return { body, trailers: readFields(lines), length: at }
      lines.push(line)
    }
  }
}
