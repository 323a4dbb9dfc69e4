// What another processor needs to decrypt responses and to check their canaries, as numbers: a GPU
// does what decrypt.ts and canaries.ts do, to the last bit. All of it is as secret as the key.

import { moduliOf } from '@hers/ring';
import { HersError } from '../errors.ts';
import { CHECKSUM_BYTES, ID_BYTES } from '../layout.ts';
import { isExact, modulusOf, type ParameterSet, primeBits } from '../parameters.ts';
import type { Plan } from '../plan.ts';
import { encodeResponse } from '../response.ts';
import { encodeVectors, readout, vectorNorm } from '../vectors.ts';
import { RESPONSE_OVERHEAD } from '../wire.ts';
import { type CanaryPlace, canaryRoom, canaryScale, makeCanaries } from './canaries.ts';
import type { QuerySecret } from './decrypt.ts';
import type { CollectionKey } from './key.ts';

/** The ring that a phase is computed in: modulo the first prime of a parameter set. */
export interface DeviceRing {
  readonly n: number;
  readonly p: number;
  readonly scale: number;
  readonly last: number;
  readonly roots: Uint32Array;
  readonly inverses: Uint32Array;
}

/** What decrypts and checks the responses to one query. */
export interface DeviceQuery {
  /** What every response to it begins with; id, first and count of the block are left open. */
  readonly head: Uint8Array;
  readonly bits0: number;
  readonly bits1: number;
  /** Bits of C1 that one product with the secret takes. */
  readonly cut: number;
  /** The transform of the secret modulo the first prime. */
  readonly secret: Uint32Array;
  /** score = phase·factor + offset, in single precision. */
  readonly factor: number;
  readonly offset: number;
  /** What no |phase| exceeds. */
  readonly largest: number;
  /** A canary's score is scale·⟨values, probe⟩ + offset, give or take `room`. */
  readonly probe: Int32Array;
  readonly scale: number;
  readonly room: number;
}

/** Whether scores under a plan can be decrypted and checked there. */
export function decryptsOnDevice({ profile, checksumGroup }: Plan): boolean {
  return !isExact(profile) && checksumGroup === 0;
}

export function deviceRing({ n, primes }: ParameterSet): DeviceRing {
  const [{ p, scale, last, roots, inverses }] = moduliOf(n, primes);
  return { n, p, scale, last, roots, inverses };
}

/** `query` is the vector that was encrypted. The caller wipes `secret` and `probe`. */
export function deviceQuery(key: CollectionKey, secret: QuerySecret, query: ArrayLike<number>): DeviceQuery {
  const { plan, keyId } = key;
  if (!decryptsOnDevice(plan))
    throw new HersError('UNSUPPORTED_PLAN', 'scores of this collection are not decrypted on a device');
  const { parameters, responseBits, unit, largestPhase } = plan;
  const { c0: bits0, c1: bits1 } = responseBits;
  const encoded = encodeVectors(plan, [query], 'query');
  const { slope, offset } = readout(plan, encoded, vectorNorm(query));
  const blockId = new Uint8Array(ID_BYTES);
  const packed = (bits: number) => new Uint8Array((parameters.n * bits) / 8);
  const head = encodeResponse({
    ...{ parameters, keyId, queryId: secret.queryId, blockId, first: 0, count: 1, bits0, bits1 },
    ...{ packed0: packed(bits0), packed1: packed(bits1) },
  }).slice(0, RESPONSE_OVERHEAD - CHECKSUM_BYTES);
  const probe = Int32Array.from(encoded.values);
  encoded.values.fill(0);
  return {
    head,
    bits0,
    bits1,
    // As `phase` of the ring cuts it.
    cut: Math.min(bits1, primeBits(parameters) - 1 - Math.log2(parameters.n)),
    secret: secret.expose().secret,
    factor: (modulusOf(parameters) / 2 ** bits1 / unit) * slope,
    offset,
    largest: largestPhase * 2 ** bits1,
    probe,
    scale: canaryScale(plan, slope),
    room: canaryRoom(plan),
  };
}

/** The canaries of many blocks, one block after the other. The caller wipes them. */
export function canaryRows(
  key: CollectionKey,
  places: readonly CanaryPlace[],
): { readonly slots: Uint32Array; readonly values: Int32Array } {
  const { canaries, width } = key.plan;
  const slots = new Uint32Array(places.length * canaries);
  const values = new Int32Array(places.length * canaries * width);
  for (const [i, place] of places.entries()) {
    if (canaries === 0) break;
    const made = makeCanaries(key, place);
    slots.set(made.slots, i * canaries);
    values.set(made.values, i * canaries * width);
    made.slots.fill(0);
    made.values.fill(0);
  }
  return { slots, values };
}
