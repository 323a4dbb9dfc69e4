// A query: one encrypted scalar per coordinate, and the mask rows' counterparts (README.md §2). On
// the wire the uniform halves are a seed.

import { checkReduced } from './block.ts';
import { QUERY_MASK } from './domains.ts';
import { HersError } from './errors.ts';
import { type ParameterSet, parameterSetById, polyWords, ringOf } from './parameters.ts';
import { finishMessage, ID_BYTES, openMessage, SEED_BYTES, startMessage, wordsAt } from './wire.ts';

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
}

/** How the rows are carried. Compressed queries will be another kind. */
const KIND_FULL = 0;

export function encodeQuery(query: Query): Uint8Array {
  const draft = startMessage(
    { kind: 'query', parameterSetId: query.parameters.id, keyId: query.keyId },
    4 * query.rows.length,
  );
  const { bytes, view } = draft;
  bytes.set(query.queryId, 32);
  view.setUint32(48, query.width, true);
  view.setUint8(52, KIND_FULL);
  view.setUint8(53, query.bits0);
  view.setUint8(54, query.bits1);
  view.setFloat64(56, query.galleryScale, true);
  bytes.set(query.seed, 64);
  wordsAt(bytes, 96, query.rows.length).set(query.rows);
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
    bodyBytes !== (width + parameters.digits) * 4 * words ||
    bits0 < 1 ||
    bits0 > bits1 ||
    bits1 > 32 ||
    !(galleryScale >= 1 && Number.isSafeInteger(galleryScale))
  ) {
    throw new HersError('MALFORMED', 'the fields of this query contradict each other');
  }
  const rows = wordsAt(bytes, bodyAt, (width + parameters.digits) * words);
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

/** A_1 … A_{width+ℓ} in NTT form: the uniform halves, expanded from the query's seed. */
export function expandQuery(query: Query): Uint32Array {
  const ring = ringOf(query.parameters);
  const words = polyWords(query.parameters);
  const [a] = ring.polys;
  const out = new Uint32Array(query.rows.length);
  for (let row = 0; row * words < out.length; row++) {
    ring.uniform(a, { key: query.seed, domain: QUERY_MASK, index: row });
    out.set(a.residues, row * words);
  }
  return out;
}
