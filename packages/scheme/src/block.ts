// A gallery block: n templates, one polynomial b_i per coordinate under one shared mask a
// (README.md §2). Everything here is public.

import type { Words } from '@hers/ring';
import { sha256 } from '@noble/hashes/sha2.js';
import { HersError } from './errors.ts';
import { BLOCK_MASK, BLOCK_MASK_BITS } from './layout.ts';
import { checkReduced, masksOf, type ParameterSet, parameterSetById, polyWords, ringOf } from './parameters.ts';
import {
  BLOCK_OVERHEAD,
  finishMessage,
  getWords,
  HEAD_BYTES,
  ID_BYTES,
  openMessage,
  putWords,
  type Room,
  roomAt,
  SEED_BYTES,
  sameBytes,
  startMessage,
} from './wire.ts';

export interface Block {
  readonly parameters: ParameterSet;
  readonly keyId: Uint8Array;
  /** Random; names the block, and changes with its content. */
  readonly blockId: Uint8Array;
  /** Encoded coordinates, and how many rows `rows` holds. */
  readonly width: number;
  /** Slots first … first + count − 1 hold templates; the rest decrypts to noise. */
  readonly first: number;
  readonly count: number;
  readonly galleryScale: number;
  /** Its masks are expanded from it. */
  readonly seed: Uint8Array;
  /** b_1 … b_width in NTT form, one after the other. */
  readonly rows: Uint32Array;
}

const SEED_AT = 80;
const ROWS_AT = SEED_AT + SEED_BYTES;

/** Room for the rows of a new block, for `encodeBlock`. */
export function blockRoom(parameters: ParameterSet, width: number): Room {
  return roomAt(ROWS_AT, width * polyWords(parameters), parameters.wordBytes);
}

/** With `room`, the rows lie in it, and the message is made there. */
export function encodeBlock(block: Block, room?: Room): Uint8Array {
  const { parameters } = block;
  const draft = startMessage(
    { kind: 'block', parameterSetId: parameters.id, keyId: block.keyId },
    SEED_BYTES + parameters.wordBytes * block.rows.length,
    room?.memory,
  );
  const { bytes, view } = draft;
  bytes.set(block.blockId, 32);
  view.setUint32(48, block.width, true);
  view.setUint32(52, block.first, true);
  view.setUint32(56, block.count, true);
  view.setFloat64(64, block.galleryScale, true);
  bytes.set(block.seed, SEED_AT);
  putWords(bytes, ROWS_AT, block.rows, parameters.wordBytes);
  return finishMessage(draft);
}

/** Which block these bytes claim to be, without looking at the rest. */
export function peekBlock(bytes: Uint8Array): Pick<Block, 'blockId'> {
  if (bytes.length < BLOCK_OVERHEAD) throw new HersError('MALFORMED', 'this is too short to be a block');
  return { blockId: bytes.subarray(HEAD_BYTES, HEAD_BYTES + ID_BYTES) };
}

export function decodeBlock(input: Uint8Array): Block {
  const { bytes, parameterSetId, keyId, view, bodyAt, bodyBytes } = openMessage(input, 'block');
  const parameters = parameterSetById(parameterSetId);
  const words = polyWords(parameters);
  const width = view.getUint32(48, true);
  const first = view.getUint32(52, true);
  const count = view.getUint32(56, true);
  const galleryScale = view.getFloat64(64, true);
  if (
    view.getUint32(60, true) !== 0 ||
    view.getBigUint64(72, true) !== 0n ||
    bodyBytes !== SEED_BYTES + width * parameters.wordBytes * words ||
    width < 1 ||
    (parameters.evaluation !== undefined && width > parameters.n) ||
    count < 1 ||
    first + count > parameters.n ||
    !(galleryScale >= 1 && Number.isSafeInteger(galleryScale))
  ) {
    throw new HersError('MALFORMED', 'the fields of this block contradict each other');
  }
  const rows = getWords(bytes, bodyAt + SEED_BYTES, width * words, parameters.wordBytes);
  checkReduced(parameters, rows, 'block');
  return {
    parameters,
    keyId,
    blockId: bytes.slice(32, 32 + ID_BYTES),
    width,
    first,
    count,
    galleryScale,
    seed: bytes.slice(bodyAt, bodyAt + SEED_BYTES),
    rows,
  };
}

/** The seed of mask number `mask` of a block: that of the block, or what it is hashed to. */
export function maskSeed(seed: Uint8Array, mask: number): Uint8Array {
  if (mask === 0) return seed;
  const input = new Uint8Array(SEED_BYTES + 4);
  input.set(seed);
  new DataView(input.buffer).setUint32(SEED_BYTES, mask, true);
  return sha256(input);
}

/** A mask of a block modulo Q, in NTT form. */
export function blockMask(block: Block, mask = 0): Uint32Array {
  const ring = ringOf(block.parameters);
  const [a] = ring.polys;
  ring.uniform(a, { key: maskSeed(block.seed, mask), domain: BLOCK_MASK, index: 0 });
  return a.residues.slice();
}

/** The low bits of a mask, which is uniform modulo Q·2^wideBits. */
export function maskBits(block: Block, into: Words, mask = 0): void {
  const { parameters } = block;
  const source = { key: maskSeed(block.seed, mask), domain: BLOCK_MASK_BITS, index: 0 };
  ringOf(parameters).uniformBits(into, parameters.wideBits, source);
}

/**
 * The mask rows in NTT form, D_0(a) … D_{ℓ−1}(a) for every mask a of the block: what the server
 * scans beside b_1 … b_width.
 */
export function maskRows(block: Block): Uint32Array {
  const { parameters, width } = block;
  const ring = ringOf(parameters);
  const { wideBits, digits } = parameters;
  const words = polyWords(parameters);
  const masks = masksOf(parameters, width);
  const out = new Uint32Array(masks * digits * words);
  const [a] = ring.polys;
  for (let mask = 0; mask < masks; mask++) {
    a.residues.set(blockMask(block, mask));
    ring.intt(a);
    maskBits(block, ring.words[0], mask);
    ring.joinWide(a, ring.words[0], wideBits);
    ring.digitsWide(0, parameters.digitBits, digits);
    for (let k = 0; k < digits; k++) {
      ring.embed(a, ring.words[k]);
      ring.ntt(a);
      out.set(a.residues, (mask * digits + k) * words);
    }
  }
  return out;
}

/** Refuses two things made under different keys or parameter sets. */
export function checkSameKey(
  a: { readonly parameters: ParameterSet; readonly keyId: Uint8Array },
  b: { readonly parameters: ParameterSet; readonly keyId: Uint8Array },
): void {
  if (a.parameters.id !== b.parameters.id || !sameBytes(a.keyId, b.keyId)) {
    throw new HersError('KEY_MISMATCH', 'this belongs to another key: another collection, epoch or master seed');
  }
}
