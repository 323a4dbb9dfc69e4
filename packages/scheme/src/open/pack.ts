// Packed responses: the results of several blocks under response secrets z_0, z_1 …, with one mask
// for all of them (README.md §9). Slow and plain: the oracle of the fast one.

import { HersError } from '../errors.ts';
import { ringOf } from '../parameters.ts';
import { peekResponse } from '../response.ts';
import { finishMessage, ID_BYTES, isKind, openMessage, startMessage } from '../wire.ts';
import type { EvaluationKeys, KeysHead } from './evaluation.ts';
import { type OpenSet, openSetById } from './parameters.ts';
import type { OpenQuery } from './query.ts';
import { EvaluationRing, P2, Q } from './ring.ts';
import { type OpenResult, unswitched } from './scan.ts';

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

/**
 * Switches results from the result secret s to the response secrets: result u of mask C1 adds
 * C1·(its packing key)/p2 to the mask and to all bodies, which adds C1·s to the phase of body u
 * alone. Then all are switched to powers of two.
 */
export function packResults(keys: EvaluationKeys, query: OpenQuery, results: readonly OpenResult[]): PackedResponse {
  checkResults(keys, results);
  const ring = EvaluationRing.of(keys.parameters);
  const { bits0, bits1 } = query;
  const inverse = BigInt(ring.constants.inverses[1]);
  const q = ring.primes[Q];
  const digits = results.map((result) => {
    const mask = unswitched(result.mask, q);
    return [ring.ntt(Q, mask), ring.ntt(P2, ring.lift(Q, P2, mask))];
  });
  /** Output v, or the mask where v is undefined. */
  const output = (v?: number): Uint32Array => {
    const [high, low] = [Q, P2].map((l, i) => {
      let sum: Uint32Array = new Uint32Array(ring.n);
      digits.forEach((digit, u) => {
        const key = keys.packing[u];
        sum = ring.add(l, sum, ring.multiply(l, digit[i], (v === undefined ? key.mask : key.bodies[v])[i]));
      });
      return ring.intt(l, sum);
    });
    const divided = ring.scale(Q, ring.subtract(Q, high, ring.lift(P2, Q, low)), inverse);
    return v === undefined ? divided : ring.add(Q, divided, unswitched(results[v].body, q));
  };
  const plain = ringOf(keys.parameters);
  const packed = (words: Uint32Array, bits: number) => {
    const out = new Uint8Array(plain.packedBytes(bits));
    plain.polys[0].residues.set(words);
    plain.switchAndPack(out, plain.polys[0], bits);
    return out;
  };
  return {
    ...packedHead(keys, query, results),
    mask: packed(output(), bits1),
    bodies: results.map((_, v) => packed(output(v), bits0)),
  };
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

const AT = { queryId: 32, generation: 48, blocks: 52, bits0: 53, bits1: 54, body: 56 };
const PLACE_BYTES = ID_BYTES + 8;

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
  const blocks = Array.from({ length: many }, (_, i) => {
    const at = AT.body + i * PLACE_BYTES;
    const first = view.getUint32(at + ID_BYTES, true);
    const count = view.getUint32(at + ID_BYTES + 4, true);
    if (count < 1 || first + count > n) throw contradiction();
    return { blockId: bytes.slice(at, at + ID_BYTES), first, count };
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

/** The query that a response answers and the blocks that it is for, without looking at the rest. */
function peekPackedResponse(bytes: Uint8Array): Pick<PackedResponse, 'queryId' | 'blocks'> {
  const short = () => new HersError('MALFORMED', 'this is too short to be a packed response');
  if (bytes.length < AT.body) throw short();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const many = view.getUint8(AT.blocks);
  if (many < 1 || bytes.length < AT.body + many * PLACE_BYTES) throw short();
  const blocks = Array.from({ length: many }, (_, i) => {
    const at = AT.body + i * PLACE_BYTES;
    return {
      blockId: bytes.subarray(at, at + ID_BYTES),
      first: view.getUint32(at + ID_BYTES, true),
      count: view.getUint32(at + ID_BYTES + 4, true),
    };
  });
  return { queryId: bytes.subarray(AT.queryId, AT.queryId + ID_BYTES), blocks };
}

/** The same of any response, packed or not. */
export function peekAnyResponse(bytes: Uint8Array): Pick<PackedResponse, 'queryId' | 'blocks'> {
  if (isKind(bytes, 'packed response')) return peekPackedResponse(bytes);
  const { queryId, ...block } = peekResponse(bytes);
  return { queryId, blocks: [block] };
}
