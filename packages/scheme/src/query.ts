// A query: one encrypted scalar per coordinate, and the mask rows' counterparts (README.md §2). On
// the wire the uniform halves are a seed.

import { HersError } from './errors.ts';
import { QUERY_MASK, QUERY_MASK_BITS } from './layout.ts';
import { checkReduced, type ParameterSet, parameterSetById, polyWords, ringOf, rowsOf } from './parameters.ts';
import {
  finishMessage,
  getWords,
  ID_BYTES,
  openMessage,
  putWords,
  type Room,
  roomAt,
  SEED_BYTES,
  startMessage,
} from './wire.ts';

export interface Query {
  readonly parameters: ParameterSet;
  readonly keyId: Uint8Array;
  /** Random; a response names the query it answers. */
  readonly queryId: Uint8Array;
  readonly width: number;
  /** The scale of the blocks it can be compared with. */
  readonly galleryScale: number;
  /** Bits to which the server switches C0 and C1. */
  readonly bits0: number;
  readonly bits1: number;
  readonly seed: Uint8Array;
  /** B_1 … B_{width+ℓ} in NTT form, one after the other. */
  readonly rows: Uint32Array;
  /** A_1 …, where they are not expanded from the seed: those of an open query (README.md §9). */
  readonly masks?: Uint32Array;
}

/** How the rows are carried. Compressed queries will be another kind. */
const KIND_FULL = 0;

const ROWS_AT = 96;

/** Room for the rows of a new query, for `encodeQuery`. */
export function queryRoom(parameters: ParameterSet, width: number): Room {
  return roomAt(ROWS_AT, rowsOf(parameters, width) * polyWords(parameters), parameters.wordBytes);
}

/** With `room`, the rows lie in it, and the message is made there. */
export function encodeQuery(query: Query, room?: Room): Uint8Array {
  const draft = startMessage(
    { kind: 'query', parameterSetId: query.parameters.id, keyId: query.keyId },
    query.parameters.wordBytes * query.rows.length,
    room?.memory,
  );
  const { bytes, view } = draft;
  bytes.set(query.queryId, 32);
  view.setUint32(48, query.width, true);
  view.setUint8(52, KIND_FULL);
  view.setUint8(53, query.bits0);
  view.setUint8(54, query.bits1);
  view.setFloat64(56, query.galleryScale, true);
  bytes.set(query.seed, 64);
  putWords(bytes, ROWS_AT, query.rows, query.parameters.wordBytes);
  return finishMessage(draft);
}

/** Which query these bytes claim to be, without looking at the rest. */
export function peekQuery(bytes: Uint8Array): Pick<Query, 'queryId'> {
  if (bytes.length < 96) throw new HersError('MALFORMED', 'this is too short to be a query');
  return { queryId: bytes.subarray(32, 32 + ID_BYTES) };
}

export function decodeQuery(input: Uint8Array): Query {
  const { bytes, parameterSetId, keyId, view, bodyAt, bodyBytes } = openMessage(input, 'query');
  const parameters = parameterSetById(parameterSetId);
  const words = polyWords(parameters);
  const width = view.getUint32(48, true);
  const bits0 = view.getUint8(53);
  const bits1 = view.getUint8(54);
  const galleryScale = view.getFloat64(56, true);
  if (view.getUint8(52) !== KIND_FULL)
    throw new HersError('UNSUPPORTED_VERSION', 'this kind of query is unknown to this version; use a newer one');
  if (
    view.getUint8(55) !== 0 ||
    width < 1 ||
    (parameters.evaluation !== undefined && width > parameters.n) ||
    bodyBytes !== rowsOf(parameters, width) * parameters.wordBytes * words ||
    bits0 < 1 ||
    bits0 > bits1 ||
    bits1 > 32 ||
    !(galleryScale >= 1 && Number.isSafeInteger(galleryScale))
  ) {
    throw new HersError('MALFORMED', 'the fields of this query contradict each other');
  }
  const rows = getWords(bytes, bodyAt, rowsOf(parameters, width) * words, parameters.wordBytes);
  checkReduced(parameters, rows, 'query');
  return {
    parameters,
    keyId,
    queryId: bytes.slice(32, 32 + ID_BYTES),
    width,
    galleryScale,
    bits0,
    bits1,
    seed: bytes.slice(64, 64 + SEED_BYTES),
    rows,
  };
}

/**
 * Whether mask row k of a query is made modulo Q·2^wideBits and rounded, mask and body: where its
 * factor g^k is no multiple of 2^wideBits (README.md §2).
 */
function isRoundedRow({ wideBits, digitBits }: ParameterSet, k: number): boolean {
  return k >= 0 && k * digitBits < wideBits;
}

/** A_1 … A_{width+ℓ} in NTT form: the uniform halves, expanded from the query's seed. */
export function expandQuery(query: Query): Uint32Array {
  if (query.masks) return query.masks;
  const ring = ringOf(query.parameters);
  const words = polyWords(query.parameters);
  const out = new Uint32Array(query.rows.length);
  for (let row = 0; row * words < out.length; row++) {
    ring.uniform(ring.polys[0], { key: query.seed, domain: QUERY_MASK, index: row });
    out.set(ring.polys[0].residues, row * words);
  }
  const { first, words: given } = givenRows(query);
  out.set(given, first * words);
  return out;
}

/**
 * The uniform halves that take more than the generator, in NTT form, and the row that they begin
 * with, so that a kernel can leave them to this: rounded rows, which follow row `width − 1`, or all
 * rows of an open query.
 */
export function givenRows(query: Query): { readonly first: number; readonly words: Uint32Array } {
  return query.masks ? { first: 0, words: query.masks } : { first: query.width, words: roundedRows(query) };
}

function roundedRows({ parameters, seed: key, width }: Query): Uint32Array {
  const { wideBits } = parameters;
  const ring = ringOf(parameters);
  const words = polyWords(parameters);
  const [a] = ring.polys;
  const [bits] = ring.words;
  let count = 0;
  while (isRoundedRow(parameters, count)) count++;
  const out = new Uint32Array(count * words);
  for (let k = 0; k < count; k++) {
    ring.uniform(a, { key, domain: QUERY_MASK, index: width + k });
    ring.uniformBits(bits, wideBits, { key, domain: QUERY_MASK_BITS, index: width + k });
    ring.intt(a);
    ring.joinWide(a, bits, wideBits);
    ring.roundWide(a, wideBits);
    ring.ntt(a);
    out.set(a.residues, k * words);
  }
  return out;
}
