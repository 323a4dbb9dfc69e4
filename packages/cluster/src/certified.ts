// `fetch` for a node that shows a certificate: the one of Node cannot.

import { readFileSync, statSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { pipeline } from 'node:stream/promises';
import { createSecureContext, getCACertificates } from 'node:tls';
import { HersError } from '@hers/service';

/** By what nodes know each other, as files in PEM. */
export interface NodeCertificate {
  /** The certificate of the authority that has signed those of all nodes. */
  readonly authority: string;
  readonly cert: string;
  readonly key: string;
}

const LOOK_EVERY_MS = 2000;
/** Answers without content. */
const EMPTY = new Set([204, 205, 304]);

const stampOf = (paths: readonly string[]) =>
  paths
    .map((path) => {
      const { mtimeMs, ino, size } = statSync(path);
      return `${mtimeMs} ${ino} ${size}`;
    })
    .join();

function agentOf({ authority, cert, key }: NodeCertificate): Agent {
  try {
    const ca = [...getCACertificates('default'), readFileSync(authority, 'utf8')];
    const secureContext = createSecureContext({ ca, cert: readFileSync(cert), key: readFileSync(key) });
    return new Agent({ keepAlive: true, secureContext });
  } catch {
    // What OpenSSL says could hold a part of the key.
    throw new HersError(
      'INVALID_ARGUMENT',
      `${authority}, ${cert} and ${key} are not the certificates of an authority and of a node, and its private key`,
    );
  }
}

/** What a node reaches others with, at addresses that begin with https. */
export interface Certified {
  readonly fetch: typeof fetch;
  agent(): Agent;
}

/**
 * Shows a certificate to whoever is asked. One that was renewed is read again. INVALID_ARGUMENT for
 * files that cannot be used.
 */
export function certifiedBy(files: NodeCertificate): Certified {
  const paths = [files.authority, files.cert, files.key];
  let agent = agentOf(files);
  let [stamp, looked] = [stampOf(paths), performance.now()];
  const current = (): Agent => {
    if (performance.now() - looked < LOOK_EVERY_MS) return agent;
    looked = performance.now();
    try {
      const now = stampOf(paths);
      if (now === stamp) return agent;
      agent = agentOf(files);
      stamp = now;
    } catch {
      // They are being replaced: the old ones serve until then.
    }
    return agent;
  };
  const ask: typeof fetch = (input, init = {}) =>
    new Promise<Response>((resolve, reject) => {
      const { method = 'GET', headers, signal, body } = init;
      const fail = (cause: unknown) => reject(new TypeError('fetch failed', { cause }));
      const asked = request(String(input), {
        method,
        headers: Object.fromEntries(new Headers(headers ?? undefined)),
        agent: current(),
        ...(signal ? { signal } : {}),
      });
      asked.on('error', fail);
      asked.on('response', (answer) => {
        const status = answer.statusCode ?? 500;
        const named = new Headers();
        for (const [name, value] of Object.entries(answer.headers)) named.set(name, String(value));
        if (EMPTY.has(status)) answer.resume();
        const content = EMPTY.has(status) ? null : contentOf(answer);
        resolve(new Response(content, { status, headers: named }));
      });
      if (body instanceof ReadableStream) pipeline(body, asked).catch(fail);
      else asked.end(body ?? undefined);
    });
  return { fetch: ask, agent: current };
}

/** Node takes any async iterable for a body. A generator alone would not end while it waits. */
function contentOf(answer: IncomingMessage): ReadableStream {
  const pieces = piecesOf(answer);
  const end = () => pieces.return(void answer.destroy());
  const content = { [Symbol.asyncIterator]: () => ({ next: () => pieces.next(), return: end }) };
  return content as unknown as ReadableStream;
}

/** The content of an answer. What breaks it off is told as fetch does. */
async function* piecesOf(answer: AsyncIterable<Buffer>): AsyncGenerator<Uint8Array> {
  try {
    for await (const { buffer, byteOffset, length } of answer) yield new Uint8Array(buffer, byteOffset, length);
  } catch (cause) {
    throw new TypeError('terminated', { cause });
  }
}
