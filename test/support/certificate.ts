import { spawnSync } from 'node:child_process'

/** A key and a certificate that vouches for itself, good for two days. */
export interface Certificate {
  readonly key: string
  readonly cert: string
}

/** Makes a certificate for these names. */
export function makeCertificate(...names: readonly string[]): Certificate {
  const made = spawnSync(
    'openssl',
    [
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:prime256v1',
      '-nodes',
      '-keyout',
      '-',
      '-out',
      '-',
      '-days',
      '2',
      '-subj',
      '/CN=test',
      '-addext',
      `subjectAltName=${names.map((name) => `DNS:${name}`).join(',')}`,
    ],
    { encoding: 'utf8' },
  )
  const pem = (label: string) =>
    new RegExp(`-----BEGIN ${label}-----[^-]+-----END ${label}-----\n`).exec(made.stdout)?.[0]
  const key = pem('PRIVATE KEY')
  const cert = pem('CERTIFICATE')
  if (key === undefined || cert === undefined) throw new Error(`openssl: ${made.stderr}`)
  return { key, cert }
}
