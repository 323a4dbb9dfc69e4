// The answer of one block to one query: an RLWE ciphertext under the query's result secret,
// switched to few bits and packed.

import { HersError } from './errors.ts';
import { type ParameterSet, parameterSetById } from './parameters.ts';
import { finishMessage, HEAD_BYTES, ID_BYTES, openMessage, RESPONSE_OVERHEAD, startMessage } from './wire.ts';

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
  bytes.set(response.queryId, HEAD_BYTES);
  bytes.set(response.blockId, HEAD_BYTES + ID_BYTES);
  view.setUint32(64, response.first, true);
  view.setUint32(68, response.count, true);
  view.setUint8(72, response.bits0);
  view.setUint8(73, response.bits1);
  bytes.set(packed0, 80);
  bytes.set(packed1, 80 + packed0.length);
  return finishMessage(draft);
}

export function decodeResponse(input: Uint8Array): ScanResponse {
  const { bytes, parameterSetId, keyId, view, bodyAt, bodyBytes } = openMessage(input, 'response');
  const parameters = parameterSetById(parameterSetId);
  const first = view.getUint32(64, true);
  const count = view.getUint32(68, true);
  const bits0 = view.getUint8(72);
  const bits1 = view.getUint8(73);
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
    queryId: bytes.slice(HEAD_BYTES, HEAD_BYTES + ID_BYTES),
    blockId: bytes.slice(HEAD_BYTES + ID_BYTES, HEAD_BYTES + 2 * ID_BYTES),
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
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  return {
    queryId: bytes.subarray(HEAD_BYTES, HEAD_BYTES + ID_BYTES),
    blockId: bytes.subarray(HEAD_BYTES + ID_BYTES, HEAD_BYTES + 2 * ID_BYTES),
    first: view.getUint32(64, true),
    count: view.getUint32(68, true),
  };
}
