import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { get as getPlain } from 'node:http'
import { get as getSecure, type RequestOptions } from 'node:https'
import { inspect } from 'node:util'
import type { ClientRun } from './run-client.ts'

/** An answer that a library gave. */
export interface Answer {
  readonly status: number
  readonly reason: string
  readonly body: string
}

/** Runs a library as if it were a program: code 0 for a 200, 1 where it throws, else the status. */
export async function runLibrary(ask: () => Promise<Answer>): Promise<ClientRun> {
  try {
    const { status, reason, body } = await ask()
    if (status === 200) return { code: 0, stdout: body, stderr: '', output: body }
    return { code: status, stdout: '', stderr: '', output: `${status} ${reason}\n${body}` }
  } catch (error) {
    return { code: 1, stdout: '', stderr: '', output: inspect(error) }
  }
}

export function libraryOutcome({ code }: ClientRun): string {
  return code === 1 ? 'throws' : `answers ${code}`
}

/** Reads an answer of any `fetch`. */
export async function readAnswer(response: {
  readonly status: number
  readonly statusText: string
  readonly text: () => Promise<string>
}): Promise<Answer> {
  return {
    status: response.status,
    reason: response.statusText,
    body: await response.text(),
  }
}

/** A GET with `node:http` or `node:https`. */
export function getWithNode(url: string, options: RequestOptions): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const get = url.startsWith('https:') ? getSecure : getPlain
    const request = get(url, options, (response) => {
      const { statusCode = 0, statusMessage = '' } = response
      let body = ''
      response.setEncoding('utf8')
      response.on('data', (text: string) => {
        body += text
      })
      response.once('end', () => resolve({ status: statusCode, reason: statusMessage, body }))
      response.once('error', reject)
    })
    request.setTimeout(20_000, () => request.destroy(new Error('no answer in 20 s')))
    request.once('error', reject)
  })
}

/** The version of an installed package. */
export function versionOfPackage(name: string): string {
  const entry = createRequire(import.meta.url).resolve(name)
  const folder = entry.slice(0, entry.lastIndexOf(`/node_modules/${name}/`))
  const path = `${folder}/node_modules/${name}/package.json`
  return (JSON.parse(readFileSync(path, 'utf8')) as { version: string }).version
}
