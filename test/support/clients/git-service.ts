import { spawn } from 'node:child_process'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { PROGRAM_PATH } from './program.ts'
import type { Service } from './upstream.ts'

/** Serves the repositories of a folder with git's own `http-backend`, as CGI. */
export function gitService(folder: string): Service {
  return { request: (request, response) => serve(folder, request, response) }
}

function serve(folder: string, request: IncomingMessage, response: ServerResponse): void {
  const { pathname, search } = new URL(request.url ?? '', 'http://upstream')
  const { headers, method = '' } = request
  const backend = spawn('git', ['-c', 'safe.directory=*', 'http-backend'], {
    env: {
      PATH: PROGRAM_PATH,
      GIT_CONFIG_NOSYSTEM: '1',
      GIT_PROJECT_ROOT: folder,
      GIT_HTTP_EXPORT_ALL: '1',
      PATH_INFO: pathname,
      QUERY_STRING: search.slice(1),
      REQUEST_METHOD: method,
      REMOTE_USER: 'tester',
      CONTENT_TYPE: headers['content-type'] ?? '',
      HTTP_CONTENT_ENCODING: headers['content-encoding'] ?? '',
      GIT_PROTOCOL: String(headers['git-protocol'] ?? ''),
    },
    stdio: ['pipe', 'pipe', 'ignore'],
    timeout: 30_000,
  })
  request.pipe(backend.stdin)
  backend.stdin.on('error', () => request.unpipe(backend.stdin))
  response.once('close', () => backend.kill())
  backend.once('error', () => response.destroy())
  let head = Buffer.alloc(0)
  const onData = (chunk: Buffer) => {
    head = Buffer.concat([head, chunk])
    const end = head.indexOf('\r\n\r\n')
    if (end === -1) return
    backend.stdout.removeListener('data', onData)
    for (const line of head.toString('latin1', 0, end).split('\r\n')) {
      const [name = '', value = ''] = line.split(/: ?(.*)/, 2)
      if (name.toLowerCase() === 'status') response.statusCode = Number.parseInt(value, 10)
      else response.setHeader(name, value)
    }
    response.write(head.subarray(end + 4))
    backend.stdout.pipe(response)
  }
  backend.stdout.on('data', onData)
}
