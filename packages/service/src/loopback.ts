// Whether traffic stays on this machine: a client then needs no TLS for its token, and a server no
// token for its clients.

/** Addresses 127.0.0.0/8 and ::1, the latter also as URLs write it, and the name `localhost`. */
export function isLoopback(host: string): boolean {
  if (host === 'localhost' || host === '::1' || host === '[::1]') return true;
  const octets = /^127\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(host)?.slice(1) ?? [];
  return octets.length > 0 && octets.every((octet) => Number(octet) <= 255);
}
