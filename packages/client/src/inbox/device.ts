// A device: a camera, a phone, a kiosk. It asks and it enrols, and holds nothing that opens the
// gallery. What it posts waits in the inbox of the store for the keeper; nothing comes back.

import { checkVector, HersError, type OptionNames, refuseUnknown } from '@hers/scheme';
import { encodeOpenQuery, openPlan } from '@hers/scheme/open';
import { encryptPublicQueryFrom, encryptShortQueryFrom } from '@hers/scheme/secret/open';
import { collectionPath, ENVELOPE_NONCE_BYTES, type EnvelopeHead, MAX_ENVELOPE_BYTES } from '@hers/service';
import { hmac } from '@noble/hashes/hmac.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { bytesOf, concat, hex, u32 } from '../bytes.ts';
import type { VectorRecord } from '../formats/records.ts';
import { Connection, HTTP_OPTIONS, type HttpOptions, postEnvelope } from '../transport/connection.ts';
import { type DeviceBundle, decodeBundle } from './bundle.ts';
import { sealRecord, signEnvelope } from './envelopes.ts';

/** How a device is opened. */
export interface DeviceOptions extends HttpOptions {
  /**
   * What a vector goes through before it is asked for: needed where the collection has a
   * compressor. It must be the one of the collection: the bundle names the SHA-256 of its file.
   */
  readonly compress?: (vector: Float32Array) => ArrayLike<number> | Promise<ArrayLike<number>>;
  /**
   * The keeper that must have signed the bundle, as `Device.keeper` names it; by default, whoever
   * the bundle itself names. A device that knows its keeper takes no bundle of another.
   */
  readonly keeper?: string;
}

const OPTIONS: OptionNames<DeviceOptions> = { ...HTTP_OPTIONS, compress: true, keeper: true };

/** What a device has posted. */
export interface Posted {
  /** Its number in the inbox. */
  readonly number: number;
  /** 32 hexadecimal digits: the keeper names what it has answered by them. */
  readonly nonce: string;
}

/**
 * Opens a device, in a page or in Node. Nothing is sent yet.
 *
 * @param where - The address of the server, or those of several; undefined for the one in the
 *   bundle.
 * @param bundle - What `hers devices add` printed.
 * @param options - A token, unless it is in the bundle, and how long calls are retried.
 * @throws {HersError} MALFORMED, UNSUPPORTED_VERSION: for what is no bundle, or one in another
 *   format.
 * @throws {HersError} INTEGRITY: where the keeper has not signed it, or another one has.
 * @throws {HersError} INVALID_ARGUMENT: without an address or where it is none, without `compress`
 *   where the collection has a compressor, or for an option that there is not.
 * @example
 * const door = openDevice('https://gallery.example', bundle);
 * await door.ask(vector);
 */
export function openDevice(
  where: string | readonly string[] | undefined,
  bundle: string,
  options: DeviceOptions = {},
): Device {
  refuseUnknown(options, OPTIONS, 'a device');
  const decoded = decodeBundle(bundle);
  const { compress, keeper, ...http } = options;
  if (keeper !== undefined && keeper !== hex(decoded.keeper))
    throw new HersError('INTEGRITY', 'this bundle was signed by another keeper than the one this device knows');
  const address = where ?? decoded.address;
  if (address === undefined) throw new HersError('INVALID_ARGUMENT', 'this bundle names no server; give its address');
  const { compressor } = decoded.keys;
  if (compressor && !compress)
    throw new HersError(
      'INVALID_ARGUMENT',
      `this collection has a compressor (${compressor.method}, SHA-256 ${compressor.digest}): give it as \`compress\``,
    );
  const token = http.token ?? decoded.token;
  const connection = new Connection(address, { ...http, ...(token === undefined ? {} : { token }) });
  return new Device(connection, decoded, compressor ? compress : undefined);
}

/**
 * A device that is open: `openDevice` makes one.
 *
 * @param options - A signal that ends the call.
 * @throws {HersError} INVALID_VECTOR: for a vector that cannot be searched for, or enrolled.
 * @throws {HersError} INVALID_ARGUMENT: for an option that does not exist.
 * @throws {HersError} INBOX_FULL: where the keeper has not taken what was posted before.
 * @throws {HersError} FORBIDDEN, UNAUTHENTICATED: where the device was revoked, or its token.
 * @throws {HersError} KEY_MISMATCH: where the bundle is for another collection.
 * @throws {HersError} WRONG_CLOCK: where the clock of the device is wrong.
 * @throws {HersError} UNAVAILABLE, OVERLOADED, TIMED_OUT: where the server cannot be reached, has
 *   too much to do, or takes too long.
 * @throws {AbortError} or another reason of the signal, when it aborts.
 */
export class Device {
  readonly #connection: Connection;
  readonly #bundle: DeviceBundle;
  readonly #compress: DeviceOptions['compress'];
  readonly #plan: ReturnType<typeof openPlan>;
  #asked = 0;

  /** @internal */
  constructor(connection: Connection, bundle: DeviceBundle, compress?: DeviceOptions['compress']) {
    this.#connection = connection;
    this.#bundle = bundle;
    this.#compress = compress;
    this.#plan = openPlan(bundle.keys.request);
  }

  /** As the keeper calls it. */
  get name(): string {
    return this.#bundle.name;
  }

  /** The public key of the keeper that signed its bundle, in 64 hexadecimal digits. */
  get keeper(): string {
    return hex(this.#bundle.keeper);
  }

  /** As the store knows it. */
  get number(): number {
    return this.#bundle.number;
  }

  /**
   * Asks who that is. The answer goes to the keeper alone.
   *
   * @param vector - With as many coordinates as the collection has.
   * @example
   * const { nonce } = await door.ask(vector);
   */
  async ask(vector: ArrayLike<number>, options: { readonly signal?: AbortSignal } = {}): Promise<Posted> {
    refuseUnknown(options, { signal: true }, 'a question');
    const { keys, own } = this.#bundle;
    const given = this.#checked(vector);
    const probe = this.#compress ? await this.#compress(given) : given;
    const entropy = this.#entropy(Float32Array.from(probe));
    const { keyId, generation } = keys;
    const query = own
      ? encryptShortQueryFrom(entropy, this.#plan, { keyId, generation, number: own.secret, seed: own.seed }, probe)
      : encryptPublicQueryFrom(entropy, this.#plan, keys.publicKey, probe);
    return this.#post('question', () => encodeOpenQuery(query), options);
  }

  /**
   * Enrols a record: seals it to the keeper, who indexes it if its policy allows that. The device
   * itself cannot read it again.
   *
   * @param record - With an id, a vector, and perhaps a payload.
   * @throws {HersError} INVALID_ARGUMENT: for a record without an id, or a payload that is no JSON.
   * @throws {HersError} TOO_LARGE: for a payload of about a mebibyte or more.
   * @example
   * await kiosk.enrol({ id: 'visitor-17', vector, payload: { badge: 17 } });
   */
  async enrol(record: VectorRecord, options: { readonly signal?: AbortSignal } = {}): Promise<Posted> {
    refuseUnknown(options, { signal: true }, 'an enrolment');
    refuseUnknown(record, { id: true, vector: true, payload: true }, 'a record');
    const { id } = record;
    if (typeof id !== 'string' || id === '')
      throw new HersError('INVALID_ARGUMENT', 'a record that is enrolled has an id, which is text');
    const vector = this.#checked(record.vector, 'gallery');
    return this.#post(
      'enrolment',
      (about) => sealRecord(this.#bundle.keys.sealingKey, about, { ...record, vector }),
      options,
    );
  }

  #checked(vector: ArrayLike<number>, role: 'query' | 'gallery' = 'query'): Float32Array {
    return checkVector({ ...this.#plan, dimension: this.#bundle.keys.dimension }, vector, role);
  }

  async #post(
    kind: EnvelopeHead['kind'],
    make: (about: EnvelopeHead) => Uint8Array | Promise<Uint8Array>,
    options: { readonly signal?: AbortSignal },
  ): Promise<Posted> {
    const { number: device, keys, signingKey, collection } = this.#bundle;
    const nonce = crypto.getRandomValues(new Uint8Array(ENVELOPE_NONCE_BYTES));
    const about = { kind, device, epoch: keys.epoch, time: Date.now(), collection: keys.collection, nonce };
    const envelope = signEnvelope(signingKey, about, await make(about));
    if (envelope.length > MAX_ENVELOPE_BYTES)
      throw new HersError('TOO_LARGE', `what a device posts has ${MAX_ENVELOPE_BYTES} bytes at most`);
    this.#connection.checkOpen();
    const number = await postEnvelope(this.#connection, `${collectionPath(collection)}/inbox`, envelope, options);
    return { number, nonce: hex(nonce) };
  }

  /**
   * Randomness of a query, hedged: a device whose image is resumed twice draws the same random
   * bytes twice, and two queries under one randomness would show their difference. With the vector
   * mixed in, different ones have different randomness.
   */
  #entropy(vector: Float32Array) {
    const asked = this.#asked++;
    const about = sha256(concat(bytesOf(vector), u32(asked)));
    let drawn = 0;
    const draw = (bytes: number) => {
      const random = crypto.getRandomValues(new Uint8Array(32));
      return hmac(sha256, this.#bundle.signingKey, concat(HEDGE, random, about, u32(drawn++))).subarray(0, bytes);
    };
    return { seed: () => draw(32), id: () => draw(16) };
  }

  /** Ends what is under way, and overwrites its keys. */
  close(): void {
    this.#connection.close();
    this.#bundle.signingKey.fill(0);
    this.#bundle.own?.seed.fill(0);
  }
}

const HEDGE = new TextEncoder().encode('HERS hedged query');
