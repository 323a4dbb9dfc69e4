// The bundle of a device: all that it needs to ask and to enrol, and no secret of the gallery. It
// is text, JSON, for a file of its owner alone: its signing key, its token and its own key are
// secret.
//
// All of it is signed by the keeper, so that a device that knows the keeper can take a new one from
// anybody: nobody else can have it encrypt with a key of theirs, or post to an address of theirs.

import type { Metric } from '@hers/scheme';
import { HersError } from '@hers/service';
import { fromHex, hex } from '../bytes.ts';
import { isTextSignedBy, KEM_PUBLIC_BYTES, SIGNING_KEY_BYTES, signText } from './envelopes.ts';

/** What queries and enrolments are made with, and what is public of it. */
export interface DeviceKeys {
  /** The id of the collection. */
  readonly collection: Uint8Array;
  readonly epoch: number;
  /** Of the evaluation keys. */
  readonly generation: number;
  readonly keyId: Uint8Array;
  /** Of the vectors that a device is given. */
  readonly dimension: number;
  /** Of the plan of what is indexed. */
  readonly request: {
    readonly dimension: number;
    readonly metric?: Metric;
    readonly normBound?: number;
    readonly queryNormBound?: number;
    readonly parameters?: string;
    readonly allowInsecure?: boolean;
  };
  /** What vectors go through before they are asked for; its file is not in the bundle. */
  readonly compressor?: { readonly digest: string; readonly method: string };
  /** Queries are encrypted with it, unless the device has a key of its own. */
  readonly publicKey: Uint8Array;
  /** Enrolments are sealed to it. */
  readonly sealingKey: Uint8Array;
}

export interface DeviceBundle {
  readonly name: string;
  readonly number: number;
  /** The name of the collection. */
  readonly collection: string;
  /** Where to post. */
  readonly address?: string | readonly string[];
  /** Of scope device. Secret. */
  readonly token?: string;
  /** The device signs with it. Secret. */
  readonly signingKey: Uint8Array;
  /** A key of its own, for queries of a kilobyte: its secret's number, and its seed. Secret. */
  readonly own?: { readonly secret: number; readonly seed: Uint8Array };
  /** The keeper signs with its counterpart. */
  readonly keeper: Uint8Array;
  readonly keys: DeviceKeys;
}

const FORMAT = 1;

const toBase64 = (bytes: Uint8Array) => btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''));
const fromBase64 = (text: string) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

export function encodeBundle(bundle: DeviceBundle, keeperSigningKey: Uint8Array): string {
  const { name, number, address, token, signingKey, own, keeper, keys } = bundle;
  const content = {
    hers: 'device',
    format: FORMAT,
    name,
    number,
    collection: bundle.collection,
    ...(address === undefined ? {} : { address }),
    ...(token === undefined ? {} : { token }),
    signingKey: toBase64(signingKey),
    ...(own === undefined ? {} : { own: { secret: own.secret, seed: toBase64(own.seed) } }),
    keeper: toBase64(keeper),
    keys: {
      ...keys,
      collection: hex(keys.collection),
      keyId: hex(keys.keyId),
      publicKey: toBase64(keys.publicKey),
      sealingKey: toBase64(keys.sealingKey),
    },
  };
  const signature = toBase64(signText(keeperSigningKey, JSON.stringify(content)));
  return `${JSON.stringify({ ...content, signature }, null, 2)}\n`;
}

/** MALFORMED for what is no bundle, INTEGRITY where no keeper signed it. */
export function decodeBundle(text: string): DeviceBundle {
  const malformed = () => new HersError('MALFORMED', 'this is no bundle of a device; hers devices add makes one');
  let parsed: Record<string, unknown>;
  try {
    parsed = JSON.parse(text);
  } catch {
    throw malformed();
  }
  if (parsed?.hers !== 'device') throw malformed();
  if (parsed.format !== FORMAT)
    throw new HersError('UNSUPPORTED_VERSION', 'this bundle of a device is in another format; make it again');
  try {
    const bytes = (value: unknown, length?: number) => {
      const out = fromBase64(value as string);
      if (length !== undefined && out.length !== length) throw malformed();
      return out;
    };
    const string = (value: unknown) => {
      if (typeof value !== 'string' || value === '') throw malformed();
      return value;
    };
    const count = (value: unknown) => {
      if (!(Number.isInteger(value) && (value as number) >= 0 && (value as number) < 2 ** 32)) throw malformed();
      return value as number;
    };
    const keeper = bytes(parsed.keeper, SIGNING_KEY_BYTES);
    const { signature, ...content } = parsed;
    if (!isTextSignedBy(keeper, JSON.stringify(content), bytes(signature, 64)))
      throw new HersError('INTEGRITY', 'the keeper has not signed this bundle; get another one');
    const { address, token } = parsed;
    const keys = parsed.keys as Record<string, unknown> & DeviceKeys;
    const own = parsed.own as { secret: unknown; seed: unknown } | undefined;
    return {
      name: string(parsed.name),
      number: count(parsed.number),
      collection: string(parsed.collection),
      ...(address === undefined ? {} : { address: Array.isArray(address) ? address.map(string) : string(address) }),
      ...(token === undefined ? {} : { token: string(token) }),
      signingKey: bytes(parsed.signingKey, SIGNING_KEY_BYTES),
      ...(own === undefined ? {} : { own: { secret: count(own.secret), seed: bytes(own.seed, SIGNING_KEY_BYTES) } }),
      keeper,
      keys: {
        collection: fromHex(string(keys.collection)),
        epoch: count(keys.epoch),
        generation: count(keys.generation),
        keyId: fromHex(string(keys.keyId)),
        dimension: count(keys.dimension),
        request: keys.request,
        ...(keys.compressor === undefined
          ? {}
          : { compressor: { digest: string(keys.compressor.digest), method: string(keys.compressor.method) } }),
        publicKey: bytes(keys.publicKey),
        sealingKey: bytes(keys.sealingKey, KEM_PUBLIC_BYTES),
      },
    };
  } catch (error) {
    throw error instanceof HersError ? error : malformed();
  }
}
