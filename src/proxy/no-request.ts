/** What a first byte says that cannot begin an HTTP request; undefined if it can. */
export function otherProtocolOf(byte: number | undefined): string | undefined {
  if (byte === 0x16)
    return 'this is TLS; the proxy itself is spoken to in plain HTTP (http:// in the proxy URL)'
  return byte === 0x04 ? 'SOCKS 4 is not spoken here; use SOCKS 5 or HTTP CONNECT' : undefined
}

/** Why Node's parser could not read a head, and the status for that. */
export function headProblem(error: NodeJS.ErrnoException): [why: string, status: number] {
  switch (error.code) {
    case 'HPE_HEADER_OVERFLOW':
      return ['the head is too long', 431]
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return ['the head did not come in time', 408]
    default:
      return [`the head cannot be read (${error.code ?? 'error'})`, 400]
  }
}
