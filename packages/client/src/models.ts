// The compressor of a collection is kept with it: its file, in pieces that are sealed and named by their hashes in the manifest as lists are, so that every client
// with the key applies the same one.

import { load } from '@hers/compress/apply';
import type { PlanRequest } from '@hers/scheme';
import { HersError, type Service } from '@hers/service';
import { concat, fromHex, hex, sha256, u32 } from './bytes.ts';
import type { ManifestModel } from './manifest.ts';
import { type Sealer, seal } from './sealing.ts';
import type { Model } from './space.ts';

/** Of a model's file, in one list. */
const PIECE_BYTES = 2 ** 22;
const MAX_MODEL_BYTES = 2 ** 28;

const about = (collectionId: Uint8Array, digest: string, piece: number) =>
  concat(new TextEncoder().encode('model'), collectionId, fromHex(digest), u32(piece));

/** Opens a model's file for a collection; INVALID_ARGUMENT when it does not fit. */
export async function openModel(file: Uint8Array, request: PlanRequest): Promise<Model> {
  const refuse = (why: string): never => {
    throw new HersError('INVALID_ARGUMENT', why);
  };
  if ((request.metric ?? 'cosine') !== 'cosine') return refuse('a compressor needs the metric cosine');
  if (file.length > MAX_MODEL_BYTES) return refuse(`a compressor has at most ${MAX_MODEL_BYTES} bytes`);
  let compressor: Model['compressor'];
  try {
    compressor = await load(file);
  } catch (error) {
    return refuse(`this compressor cannot be used: ${(error as Error).message}`);
  }
  const { inputDimension, outputDimension } = compressor;
  if (inputDimension !== request.dimension)
    return refuse(`this compressor takes ${inputDimension} dimensions, and the collection has ${request.dimension}`);
  if (outputDimension > inputDimension) return refuse('this compressor makes vectors longer');
  return { compressor, digest: hex(await sha256(file)) };
}

/** The pieces of a model, sealed, in order. */
export async function sealModel(sealer: Sealer, collectionId: Uint8Array, model: Model): Promise<Uint8Array[]> {
  const file = model.compressor.save();
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < file.length; at += PIECE_BYTES)
    pieces.push(
      await seal(sealer, file.subarray(at, at + PIECE_BYTES), about(collectionId, model.digest, pieces.length)),
    );
  return pieces;
}

/** Fetches a model that the manifest names. */
export async function fetchModel(
  service: Service,
  name: string,
  sealer: Sealer,
  collectionId: Uint8Array,
  { lists, digest, dimension }: ManifestModel,
  request: PlanRequest,
): Promise<Model> {
  const pieces: Uint8Array[] = [];
  for await (const sealed of service.getLists(name, lists.map(fromHex))) {
    if (hex(await sha256(sealed)) !== lists[pieces.length])
      throw new HersError('INTEGRITY', 'the store gave another compressor than the manifest names');
    pieces.push(await sealer.open(sealed, about(collectionId, digest, pieces.length)));
  }
  if (pieces.length !== lists.length) throw new HersError('INTEGRITY', 'the store has lost a part of the compressor');
  const file = concat(...pieces);
  if (hex(await sha256(file)) !== digest)
    throw new HersError('INTEGRITY', 'the compressor is not the one that the manifest names');
  const model = await openModel(file, request);
  if (model.compressor.outputDimension !== dimension)
    throw new HersError('INTEGRITY', 'the compressor makes vectors of another dimension than the manifest says');
  return model;
}
