// Certificate and key from files, read again when they change: a renewed certificate is served without a restart.

import { readFileSync, statSync } from 'node:fs';
import { createSecureContext, type Server } from 'node:tls';
import { HersError } from '@hers/service';

export interface TlsFiles {
  /** The certificate and its chain, and its private key, both PEM. */
  readonly cert: string;
  readonly key: string;
}

interface Pair {
  readonly cert: Buffer;
  readonly key: Buffer;
}

const LOOK_EVERY_MS = 2000;

/** INVALID_ARGUMENT with the file that is wrong, or when the two do not belong together. */
export function readTls({ cert, key }: TlsFiles): Pair {
  const read = (path: string, what: string) => {
    try {
      return readFileSync(path);
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      throw new HersError('INVALID_ARGUMENT', `${path}, which should hold the ${what}, cannot be read (${code})`);
    }
  };
  const pair = { cert: read(cert, 'certificate'), key: read(key, 'private key of the certificate') };
  try {
    createSecureContext(pair);
  } catch {
    // What OpenSSL says could hold a part of the key.
    throw new HersError('INVALID_ARGUMENT', `${cert} and ${key} are not a certificate and its private key`);
  }
  return pair;
}

const stampOf = ({ cert, key }: TlsFiles) =>
  [cert, key]
    .map((path) => {
      try {
        const { mtimeMs, ino, size } = statSync(path);
        return `${mtimeMs} ${ino} ${size}`;
      } catch {
        return 'gone';
      }
    })
    .join();

/** Watches the files. What cannot be used leaves the old certificate in place, and is told. */
export function watchTls(
  files: TlsFiles,
  server: Server,
  {
    onChange,
    onTrouble,
    everyMs = LOOK_EVERY_MS,
  }: { onChange(): void; onTrouble(error: HersError): void; everyMs?: number },
): () => void {
  let stamp = stampOf(files);
  const timer = setInterval(() => {
    const now = stampOf(files);
    if (now === stamp) return;
    stamp = now;
    try {
      server.setSecureContext(readTls(files));
      onChange();
    } catch (error) {
      onTrouble(error as HersError);
    }
  }, everyMs);
  timer.unref();
  return () => clearInterval(timer);
}
