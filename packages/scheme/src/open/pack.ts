// What comes of scanning blocks with an open query, and packed responses: the results of several
// blocks under response secrets z_0, z_1 …, with one mask for all of them (README.md §9).
//
// Kernels know nothing of open queries: they are given a query whose masks are not expanded from a
// seed, and asked for responses of 32 bits. Of a q below 2^30 these tell every coefficient exactly
// (`unswitched` in testing/slow-ring.ts), so results for packing come out of the ordinary scan.

import type { Block } from '../block.ts';
import { HersError } from '../errors.ts';
import { PACKED_LAYOUT, PLACE_BYTES } from '../layout.ts';
import { type OpenSet, openSetById } from '../parameters.ts';
import type { Query } from '../query.ts';
import { decodeResponse, packedBlocks } from '../response.ts';
import { finishMessage, ID_BYTES, openMessage, SEED_BYTES, startMessage, wordsAt } from '../wire.ts';
import type { KeysHead } from './evaluation.ts';
import type { OpenRows } from './fast.ts';
import type { OpenQuery } from './query.ts';

/** The answer of up to T blocks to one query. */
export interface PackedResponse {
  readonly parameters: OpenSet;
  readonly keyId: Uint8Array;
  readonly queryId: Uint8Array;
  readonly generation: number;
  readonly bits0: number;
  readonly bits1: number;
  readonly blocks: readonly OpenResult['block'][];
  /** The mask that all share, of bits1 bits, and for each block its body, of bits0 bits, packed. */
  readonly mask: Uint8Array;
  readonly bodies: readonly Uint8Array[];
}

export function checkResults({ packing }: KeysHead, { length }: readonly OpenResult[]): void {
  if (length < 1 || length > packing.length)
    throw new HersError('INVALID_ARGUMENT', `from 1 to ${packing.length} results share a response, not ${length}`);
}

/** Everything of a packed response but what is packed. */
export function packedHead(
  { parameters, keyId, generation }: KeysHead,
  { queryId, bits0, bits1 }: OpenQuery,
  results: readonly OpenResult[],
): Omit<PackedResponse, 'mask' | 'bodies'> {
  return { parameters, keyId, queryId, generation, bits0, bits1, blocks: results.map(({ block }) => block) };
}

const AT = PACKED_LAYOUT;

export function encodePackedResponse(response: PackedResponse): Uint8Array {
  const { parameters, keyId, blocks, mask, bodies } = response;
  const packed = bodies.reduce((sum, body) => sum + body.length, mask.length);
  const head = { kind: 'packed response', parameterSetId: parameters.id, keyId } as const;
  const draft = startMessage(head, PLACE_BYTES * blocks.length + packed);
  const { bytes, view } = draft;
  bytes.set(response.queryId, AT.queryId);
  view.setUint32(AT.generation, response.generation, true);
  view.setUint8(AT.blocks, blocks.length);
  view.setUint8(AT.bits0, response.bits0);
  view.setUint8(AT.bits1, response.bits1);
  let at = AT.body;
  for (const { blockId, first, count } of blocks) {
    bytes.set(blockId, at);
    view.setUint32(at + ID_BYTES, first, true);
    view.setUint32(at + ID_BYTES + 4, count, true);
    at += PLACE_BYTES;
  }
  for (const part of [mask, ...bodies]) {
    bytes.set(part, at);
    at += part.length;
  }
  return finishMessage(draft);
}

export function decodePackedResponse(input: Uint8Array): PackedResponse {
  const { bytes, parameterSetId, keyId, view, bodyBytes } = openMessage(input, 'packed response');
  const parameters = openSetById(parameterSetId);
  const { n } = parameters;
  const bits0 = view.getUint8(AT.bits0);
  const bits1 = view.getUint8(AT.bits1);
  const many = view.getUint8(AT.blocks);
  const [bytes0, bytes1] = [bits0, bits1].map((bits) => (n * bits) / 8);
  const contradiction = () => new HersError('MALFORMED', 'the fields of this response contradict each other');
  if (
    view.getUint8(55) !== 0 ||
    bits0 < 1 ||
    bits0 > bits1 ||
    bits1 > 32 ||
    many < 1 ||
    many > parameters.evaluation.responses ||
    bodyBytes !== many * (PLACE_BYTES + bytes0) + bytes1
  )
    throw contradiction();
  const blocks = packedBlocks(bytes).map(({ blockId, first, count }) => {
    if (count < 1 || first + count > n) throw contradiction();
    return { blockId: blockId.slice(), first, count };
  });
  const maskAt = AT.body + many * PLACE_BYTES;
  return {
    parameters,
    keyId,
    queryId: bytes.slice(AT.queryId, AT.queryId + ID_BYTES),
    generation: view.getUint32(AT.generation, true),
    bits0,
    bits1,
    blocks,
    mask: bytes.subarray(maskAt, maskAt + bytes1),
    bodies: blocks.map((_, v) => {
      const at = maskAt + bytes1 + v * bytes0;
      return bytes.subarray(at, at + bytes0);
    }),
  };
}

/** Bits of a response that a result is read from. */
const EXACT_BITS = 32;
const NO_SEED = new Uint8Array(SEED_BYTES);

/** The query that a kernel scans with; its responses are for `resultOf`. */
export function scannedQuery(query: OpenQuery, { bodies, masks }: OpenRows): Query {
  const { parameters, keyId, queryId, width, galleryScale } = query;
  const bits = { bits0: EXACT_BITS, bits1: EXACT_BITS };
  return { parameters, keyId, queryId, width, galleryScale, ...bits, seed: NO_SEED, rows: bodies, masks };
}

/**
 * What the scan of one block gives: body and mask under the result secret, coefficients modulo q
 * switched to 32 bits.
 */
export interface OpenResult {
  readonly block: Pick<Block, 'blockId' | 'first' | 'count'>;
  readonly body: Uint32Array;
  readonly mask: Uint32Array;
}

/** Reads the response of a kernel to a query of `scannedQuery`. */
export function resultOf(response: Uint8Array): OpenResult {
  const { parameters, blockId, first, count, packed0, packed1, bits0, bits1 } = decodeResponse(response);
  if (bits0 !== EXACT_BITS || bits1 !== EXACT_BITS)
    throw new HersError('MALFORMED', 'this response is not the result of an open query');
  const [body, mask] = [packed0, packed1].map((bytes) => wordsAt(bytes, 0, parameters.n));
  return { block: { blockId, first, count }, body, mask };
}
