// The answer of one block to one query: an RLWE ciphertext under the query's result secret,
// switched to few bits and packed. And the server's whole work for it, plain and obviously right:
// the oracle for every faster scan.

import { type Block, checkSameKey, maskRows } from './block.ts';
import { HersError } from './errors.ts';
import { ID_BYTES, RESPONSE_LAYOUT } from './layout.ts';
import { type ParameterSet, parameterSetById, polyWords, ringOf, rowsOf } from './parameters.ts';
import { expandQuery, type Query } from './query.ts';
import { finishMessage, openMessage, RESPONSE_OVERHEAD, startMessage } from './wire.ts';

const AT = RESPONSE_LAYOUT;

export interface ScanResponse {
  readonly parameters: ParameterSet;
  readonly keyId: Uint8Array;
  readonly queryId: Uint8Array;
  readonly blockId: Uint8Array;
  /** The slots of the block that hold templates. */
  readonly first: number;
  readonly count: number;
  readonly bits0: number;
  readonly bits1: number;
  /** C0 and C1, packed. */
  readonly packed0: Uint8Array;
  readonly packed1: Uint8Array;
}

export function encodeResponse(response: ScanResponse): Uint8Array {
  const { packed0, packed1 } = response;
  const head = { kind: 'response', parameterSetId: response.parameters.id, keyId: response.keyId } as const;
  const draft = startMessage(head, packed0.length + packed1.length);
  const { bytes, view } = draft;
  bytes.set(response.queryId, AT.queryId);
  bytes.set(response.blockId, AT.blockId);
  view.setUint32(AT.first, response.first, true);
  view.setUint32(AT.count, response.count, true);
  view.setUint8(AT.bits0, response.bits0);
  view.setUint8(AT.bits1, response.bits1);
  bytes.set(packed0, AT.body);
  bytes.set(packed1, AT.body + packed0.length);
  return finishMessage(draft);
}

/** Makes the beginning of every response to a query, with zeros for what is the block's. */
export function responseHead(
  query: Pick<ScanResponse, 'parameters' | 'keyId' | 'queryId' | 'bits0' | 'bits1'>,
): Uint8Array {
  const packed = (bits: number) => new Uint8Array((query.parameters.n * bits) / 8);
  const { parameters, keyId, queryId, bits0, bits1 } = query;
  const none = {
    blockId: new Uint8Array(ID_BYTES),
    first: 0,
    count: 0,
    packed0: packed(bits0),
    packed1: packed(bits1),
  };
  return encodeResponse({ parameters, keyId, queryId, bits0, bits1, ...none }).slice(0, AT.body);
}

export function decodeResponse(input: Uint8Array): ScanResponse {
  const { bytes, parameterSetId, keyId, view, bodyAt, bodyBytes } = openMessage(input, 'response');
  const parameters = parameterSetById(parameterSetId);
  const first = view.getUint32(AT.first, true);
  const count = view.getUint32(AT.count, true);
  const bits0 = view.getUint8(AT.bits0);
  const bits1 = view.getUint8(AT.bits1);
  const bytes0 = (parameters.n * bits0) / 8;
  const bytes1 = (parameters.n * bits1) / 8;
  const reserved = view.getUint16(74, true) | view.getUint32(76, true);
  if (
    reserved !== 0 ||
    bits0 < 1 ||
    bits0 > bits1 ||
    bits1 > 32 ||
    count < 1 ||
    first + count > parameters.n ||
    bodyBytes !== bytes0 + bytes1
  ) {
    throw new HersError('MALFORMED', 'the fields of this response contradict each other');
  }
  return {
    parameters,
    keyId,
    queryId: bytes.slice(AT.queryId, AT.queryId + ID_BYTES),
    blockId: bytes.slice(AT.blockId, AT.blockId + ID_BYTES),
    first,
    count,
    bits0,
    bits1,
    packed0: bytes.subarray(bodyAt, bodyAt + bytes0),
    packed1: bytes.subarray(bodyAt + bytes0, bodyAt + bytes0 + bytes1),
  };
}

/**
 * What a response says about itself, without decoding it: for sorting many before they are
 * decrypted, which checks everything.
 */
export function peekResponse(bytes: Uint8Array): Pick<ScanResponse, 'queryId' | 'blockId' | 'first' | 'count'> {
  if (bytes.length < RESPONSE_OVERHEAD) throw new HersError('MALFORMED', 'this is too short to be a response');
  return {
    queryId: bytes.subarray(AT.queryId, AT.queryId + ID_BYTES),
    blockId: bytes.subarray(AT.blockId, AT.blockId + ID_BYTES),
    first: u32At(bytes, AT.first),
    count: u32At(bytes, AT.count),
  };
}

/** Without a view, which would be garbage for every response. */
function u32At(bytes: Uint8Array, at: number): number {
  return (bytes[at] | (bytes[at + 1] << 8) | (bytes[at + 2] << 16) | (bytes[at + 3] << 24)) >>> 0;
}

/** A block as it is scanned: width + ℓ rows in NTT form. */
export interface BlockMatrix {
  readonly block: Block;
  readonly maskRows: Uint32Array;
}

export function blockMatrix(block: Block): BlockMatrix {
  return { block, maskRows: maskRows(block) };
}

/** A query as it is scanned: both halves of every row. */
export interface ExpandedQuery {
  readonly query: Query;
  readonly uniform: Uint32Array;
}

export function expandedQuery(query: Query): ExpandedQuery {
  return { query, uniform: expandQuery(query) };
}

/** C0 = Σ G_r·B_r and C1 = Σ G_r·A_r over the rows, out of NTT form, switched and packed. */
export function scanBlock({ block, maskRows }: BlockMatrix, { query, uniform }: ExpandedQuery): ScanResponse {
  checkSameKey(block, query);
  if (block.width !== query.width || block.galleryScale !== query.galleryScale) {
    throw new HersError('BLOCK_MISMATCH', 'this block was made under another plan than the query');
  }
  const { parameters } = block;
  const ring = ringOf(parameters);
  const words = polyWords(parameters);
  const [c0, c1, g, b, a] = ring.polys;
  c0.residues.fill(0);
  c1.residues.fill(0);
  for (let row = 0; row < rowsOf(parameters, block.width); row++) {
    const at = row * words;
    const mask = (row - block.width) * words;
    g.residues.set(row < block.width ? block.rows.subarray(at, at + words) : maskRows.subarray(mask, mask + words));
    b.residues.set(query.rows.subarray(at, at + words));
    a.residues.set(uniform.subarray(at, at + words));
    ring.multiplyAdd(c0, g, b);
    ring.multiplyAdd(c1, g, a);
  }
  ring.intt(c0);
  ring.intt(c1);
  const packed0 = new Uint8Array(ring.packedBytes(query.bits0));
  const packed1 = new Uint8Array(ring.packedBytes(query.bits1));
  ring.switchAndPack(packed0, c0, query.bits0);
  ring.switchAndPack(packed1, c1, query.bits1);
  const { keyId, queryId, bits0, bits1 } = query;
  return {
    parameters,
    keyId,
    queryId,
    blockId: block.blockId,
    first: block.first,
    count: block.count,
    bits0,
    bits1,
    packed0,
    packed1,
  };
}
