// Decodes the public part of a collection's key. A store keeps it as it is, and nothing that is
// shipped reads it: tests see what is in it, and that it holds no secret.

import { HersError } from '../src/errors.ts';
import { PROFILES, parameterSetById } from '../src/parameters.ts';
import { MAX_DIMENSION, METRICS, MIN_DIMENSION } from '../src/plan.ts';
import type { KeyInfo } from '../src/secret/key.ts';
import { ID_BYTES, openMessage } from '../src/wire.ts';

export function decodeKeyInfo(input: Uint8Array): KeyInfo {
  const { bytes, parameterSetId, keyId, view, bodyBytes } = openMessage(input, 'key');
  const parameters = parameterSetById(parameterSetId);
  const dimension = view.getUint32(52, true);
  const metric = METRICS[view.getUint8(56)];
  const profile = PROFILES[view.getUint8(57)];
  const width = view.getUint32(60, true);
  const galleryScale = view.getFloat64(64, true);
  if (
    bodyBytes !== 0 ||
    view.getUint16(58, true) !== 0 ||
    view.getBigUint64(72, true) !== 0n ||
    metric === undefined ||
    profile === undefined ||
    dimension < MIN_DIMENSION ||
    dimension > MAX_DIMENSION ||
    width !== dimension + (metric === 'euclidean' ? 1 : 0) ||
    !(galleryScale >= 1 && Number.isSafeInteger(galleryScale))
  ) {
    throw new HersError('MALFORMED', 'the fields of this key contradict each other');
  }
  return {
    parameters,
    keyId,
    collectionId: bytes.slice(32, 32 + ID_BYTES),
    epoch: view.getUint32(48, true),
    dimension,
    metric,
    profile,
    width,
    galleryScale,
  };
}
