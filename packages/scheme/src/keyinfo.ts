// The public part of a collection's key: what a store keeps to know which blocks and queries belong
// together. Nothing in it helps to decrypt.

import { HersError } from './errors.ts';
import { type ParameterSet, PROFILES, type Profile, parameterSetById } from './parameters.ts';
import { MAX_DIMENSION, METRICS, type Metric, MIN_DIMENSION } from './plan.ts';
import { finishMessage, ID_BYTES, openMessage, startMessage } from './wire.ts';

export interface KeyInfo {
  readonly parameters: ParameterSet;
  readonly keyId: Uint8Array;
  readonly collectionId: Uint8Array;
  readonly epoch: number;
  readonly dimension: number;
  readonly metric: Metric;
  readonly profile: Profile;
  readonly width: number;
  readonly galleryScale: number;
}

export function encodeKeyInfo(info: KeyInfo): Uint8Array {
  const draft = startMessage({ kind: 'key', parameterSetId: info.parameters.id, keyId: info.keyId }, 0);
  const { bytes, view } = draft;
  bytes.set(info.collectionId, 32);
  view.setUint32(48, info.epoch, true);
  view.setUint32(52, info.dimension, true);
  view.setUint8(56, METRICS.indexOf(info.metric));
  view.setUint8(57, PROFILES.indexOf(info.profile));
  view.setUint32(60, info.width, true);
  view.setFloat64(64, info.galleryScale, true);
  return finishMessage(draft);
}

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
