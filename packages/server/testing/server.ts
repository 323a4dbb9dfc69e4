// Shared by tests: servers that vanish, and certificates of our own, because Node makes keys and
// signatures but no certificates.

import { createSign, generateKeyPairSync, randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { Service } from '@hers/service';
import { openStore } from '@hers/store';
import type { Measure } from '../src/guests.ts';
import { type ServeOptions, serve } from '../src/server.ts';
import type { LogLevel } from '../src/transport.ts';

/** One value of ASN.1 in DER. */
function der(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const head = length < 128 ? [length] : length < 256 ? [0x81, length] : [0x82, length >> 8, length & 255];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
}

const sequence = (...parts: readonly Uint8Array[]) => der(0x30, ...parts);
const oid = (hex: string) => der(0x06, Buffer.from(hex, 'hex'));
const utcTime = (date: Date) => der(0x17, Buffer.from(`${date.toISOString().replace(/[-:T]/g, '').slice(2, 14)}Z`));

/** A certificate for localhost and 127.0.0.1, signed by itself, good for a day (RFC 5280 §4.1). */
export function selfSigned(commonName = 'localhost'): { readonly cert: string; readonly key: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const ecdsaWithSha256 = sequence(oid('2a8648ce3d040302'));
  const name = sequence(der(0x31, sequence(oid('550403'), der(0x0c, Buffer.from(commonName)))));
  const day = 86_400_000;
  const alternativeNames = sequence(der(0x82, Buffer.from('localhost')), der(0x87, Buffer.from([127, 0, 0, 1])));
  const certificate = sequence(
    der(0xa0, der(0x02, Buffer.from([2]))),
    der(0x02, Buffer.concat([Buffer.from([1]), randomBytes(8)])),
    ecdsaWithSha256,
    name,
    sequence(utcTime(new Date(Date.now() - day)), utcTime(new Date(Date.now() + day))),
    name,
    publicKey.export({ type: 'spki', format: 'der' }),
    der(
      0xa3,
      sequence(
        sequence(oid('551d11'), der(0x04, alternativeNames)),
        sequence(oid('551d13'), der(0x01, Buffer.from([0xff])), der(0x04, sequence(der(0x01, Buffer.from([0xff]))))),
      ),
    ),
  );
  const signature = createSign('sha256').update(certificate).sign(privateKey);
  const signed = sequence(certificate, ecdsaWithSha256, der(0x03, Buffer.from([0]), signature));
  const body = signed
    .toString('base64')
    .replace(/(.{64})/g, '$1\n')
    .trimEnd();
  return {
    cert: `-----BEGIN CERTIFICATE-----\n${body}\n-----END CERTIFICATE-----\n`,
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

interface ServedOptions extends ServeOptions {
  readonly service?: (store: Service) => Service;
  /** What the process has in memory. */
  readonly measure?: Measure;
  readonly inbox?: NonNullable<Parameters<typeof openStore>[1]>['inbox'];
}

/** A folder that is served, and goes away with everything in it. */
export async function served(options: ServedOptions = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'hers-server-'));
  const { service = (store) => store, measure, inbox, ...rest } = options;
  const store = await openStore(join(folder, 'gallery'), { quietMs: 5, ...(inbox ? { inbox } : {}) });
  const made = Object.fromEntries(Object.entries(rest).map(([key, value]) => [key, inFolder(folder, key, value)]));
  const server = await serve(service(store), { port: 0, ...made }, measure).catch(async (error) => {
    await store.close();
    await rm(folder, { recursive: true });
    throw error;
  });
  return {
    ...server,
    folder,
    store,
    async [Symbol.asyncDispose]() {
      await server.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Files that are given by a plain name lie in the folder. */
function inFolder(folder: string, key: string, value: unknown): unknown {
  return (key === 'audit' || key === 'tokens') && typeof value === 'string' ? resolve(folder, value) : value;
}

/** What a line of the log looked like, as they come. */
export function collectedLog(level: LogLevel = 'info') {
  const lines: string[] = [];
  return { lines, log: { level, stream: { write: (line: string) => void lines.push(line) } } };
}
