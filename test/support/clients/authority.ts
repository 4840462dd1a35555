import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** A certificate authority for one test, and a certificate of it for every name that the tests use. */
export interface Authority {
  /** The authority's certificate, for clients that want a file. */
  readonly caFile: string
  readonly ca: string
  readonly key: string
  readonly cert: string
}

const CONFIG = `
[req]
distinguished_name = name
[name]
[authority]
basicConstraints = critical, CA:TRUE
keyUsage = critical, keyCertSign, cRLSign
subjectKeyIdentifier = hash
[server]
basicConstraints = critical, CA:FALSE
keyUsage = critical, digitalSignature
extendedKeyUsage = serverAuth
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
subjectAltName = DNS:*.allowed.test, DNS:*.denied.test, IP:127.0.0.1
`

/** Makes both in `folder`, valid for two days. */
export function createAuthority(folder: string): Authority {
  const at = (name: string) => join(folder, name)
  writeFileSync(at('openssl.cnf'), CONFIG)
  const request = (name: string, subject: string, more: readonly string[]) => {
    const shape = ['req', '-x509', '-config', at('openssl.cnf'), '-days', '2', '-nodes']
    const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1']
    const files = ['-keyout', at(`${name}.key`), '-out', at(`${name}.pem`)]
    const args = [...shape, ...key, ...files, '-subj', subject, ...more]
    execFileSync('openssl', args, { stdio: 'pipe', timeout: 20_000 })
  }
  request('ca', '/CN=client tests', ['-extensions', 'authority'])
  const signer = ['-CA', at('ca.pem'), '-CAkey', at('ca.key')]
  request('server', '/CN=upstream of the client tests', ['-extensions', 'server', ...signer])
  const read = (name: string) => readFileSync(at(name), 'utf8')
  return {
    caFile: at('ca.pem'),
    ca: read('ca.pem'),
    key: read('server.key'),
    cert: read('server.pem'),
  }
}
