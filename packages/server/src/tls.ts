// Certificate and key from files, read again when they change: a renewed certificate is served
// without a restart.

import { readFileSync } from 'node:fs';
import { createSecureContext, type SecureVersion, type Server } from 'node:tls';
import { HersError } from '@hers/service';
import { stampOf } from '@hers/service/target';

/** Where the certificate and its private key are, as PEM. */
export interface TlsFiles {
  /** The certificate and its chain, and its private key, both PEM. */
  readonly cert: string;
  /** The private key. */
  readonly key: string;
  /**
   * Whoever connects must show a certificate of this authority; nobody has to without.
   *
   * @internal
   */
  readonly authority?: string;
}

/**
 * What is spoken. A new certificate sets all of it again, so the files and this go together
 * everywhere.
 */
const TLS_SETTINGS: { readonly minVersion: SecureVersion; readonly ciphers: string } = {
  minVersion: 'TLSv1.2',
  /**
   * With authenticated encryption and forward secrecy alone (RFC 9325 §4.2). Under TLS 1.2, what is
   * left out encrypts with CBC, or opens what was recorded to whoever gets the key later.
   */
  ciphers: [
    'TLS_AES_256_GCM_SHA384',
    'TLS_CHACHA20_POLY1305_SHA256',
    'TLS_AES_128_GCM_SHA256',
    'ECDHE-ECDSA-AES128-GCM-SHA256',
    'ECDHE-RSA-AES128-GCM-SHA256',
    'ECDHE-ECDSA-AES256-GCM-SHA384',
    'ECDHE-RSA-AES256-GCM-SHA384',
    'ECDHE-ECDSA-CHACHA20-POLY1305',
    'ECDHE-RSA-CHACHA20-POLY1305',
  ].join(':'),
};

/** Options of a server of node:tls. */
export type TlsOptions = typeof TLS_SETTINGS & {
  readonly cert: Buffer;
  readonly key: Buffer;
  readonly ca?: Buffer;
  readonly requestCert?: boolean;
  readonly rejectUnauthorized?: boolean;
};

const LOOK_EVERY_MS = 2000;

/** INVALID_ARGUMENT with the file that is wrong, or when the two do not belong together. */
export function readTls({ cert, key, authority }: TlsFiles): TlsOptions {
  const read = (path: string, what: string) => {
    try {
      return readFileSync(path);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw new HersError(
        'INVALID_ARGUMENT',
        `${path}, which should hold the ${what}, cannot be read (${code}); check its path and permissions`,
      );
    }
  };
  const options: TlsOptions = {
    ...TLS_SETTINGS,
    cert: read(cert, 'certificate'),
    key: read(key, 'private key of the certificate'),
    ...(authority === undefined
      ? {}
      : { ca: read(authority, 'certificate of the authority'), requestCert: true, rejectUnauthorized: true }),
  };
  try {
    createSecureContext(options);
  } catch {
    // What OpenSSL says could hold a part of the key.
    throw new HersError(
      'INVALID_ARGUMENT',
      `${cert} and ${key} are not a certificate and its private key; give both as PEM, and of one pair`,
    );
  }
  return options;
}

function stampOfAll({ cert, key, authority = cert }: TlsFiles): string {
  try {
    return stampOf(cert, key, authority);
  } catch {
    return 'gone';
  }
}

/** Watches the files. What cannot be used leaves the old certificate in place, and is told. */
export function watchTls(
  files: TlsFiles,
  server: Server,
  {
    onChange,
    onBackgroundError,
    everyMs = LOOK_EVERY_MS,
  }: { onChange(): void; onBackgroundError(error: HersError): void; everyMs?: number },
): () => void {
  let stamp = stampOfAll(files);
  const timer = setInterval(() => {
    const now = stampOfAll(files);
    if (now === stamp) return;
    stamp = now;
    try {
      server.setSecureContext(readTls(files));
      onChange();
    } catch (error) {
      onBackgroundError(error as HersError);
    }
  }, everyMs);
  timer.unref();
  return () => clearInterval(timer);
}
