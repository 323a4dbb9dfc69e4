// The compressor of a collection is kept with it: its file, in pieces that are sealed and named by
// their hashes in the manifest as lists are, so that every client with the key applies the same
// one.

import { type Compressor, load } from '@hers/compress';
import type { PlanRequest } from '@hers/scheme';
import { HersError, type Service } from '@hers/service';
import { concat, fromHex, hex, sha256, u32 } from '../bytes.ts';
import { invalid } from '../fields/field.ts';
import { type Sealer, seal } from '../sealing/sealing.ts';
import type { ManifestCompressor } from './manifest.ts';

export interface Compression {
  readonly compressor: Compressor;
  /** SHA-256 of its file, hexadecimal. */
  readonly digest: string;
}

/** Of a compressor's file, in one list. */
const PIECE_BYTES = 2 ** 22;
const MAX_COMPRESSOR_BYTES = 2 ** 28;

const associatedData = (collectionId: Uint8Array, digest: string, piece: number) =>
  concat(new TextEncoder().encode('compressor'), collectionId, fromHex(digest), u32(piece));

/** Opens a compressor's file for a collection; INVALID_ARGUMENT when it does not fit. */
export async function openCompressor(file: Uint8Array, request: PlanRequest): Promise<Compression> {
  const refuse = (why: string): never => {
    throw invalid(why);
  };
  if ((request.metric ?? 'cosine') !== 'cosine') return refuse('a compressor needs the metric cosine');
  if (file.length > MAX_COMPRESSOR_BYTES) return refuse(`a compressor has at most ${MAX_COMPRESSOR_BYTES} bytes`);
  let compressor: Compression['compressor'];
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

/** The pieces of a compressor, sealed, in order. */
export async function sealCompressor(
  sealer: Sealer,
  collectionId: Uint8Array,
  compression: Compression,
): Promise<Uint8Array[]> {
  const file = compression.compressor.save();
  const pieces: Uint8Array[] = [];
  for (let at = 0; at < file.length; at += PIECE_BYTES) {
    const about = associatedData(collectionId, compression.digest, pieces.length);
    pieces.push(await seal(sealer, file.subarray(at, at + PIECE_BYTES), about));
  }
  return pieces;
}

/** Fetches a compressor that the manifest names; `skip` bytes stand before each seal. */
export async function fetchCompressor(
  service: Service,
  name: string,
  sealer: Sealer,
  collectionId: Uint8Array,
  { lists, digest, dimension }: ManifestCompressor,
  request: PlanRequest,
  skip: number,
): Promise<Compression> {
  const pieces: Uint8Array[] = [];
  for await (const sealed of service.getLists(name, lists.map(fromHex))) {
    if (hex(await sha256(sealed)) !== lists[pieces.length])
      throw new HersError('INTEGRITY', 'the store gave another compressor than the manifest names');
    pieces.push(await sealer.open(sealed.subarray(skip), associatedData(collectionId, digest, pieces.length)));
  }
  if (pieces.length !== lists.length) throw new HersError('INTEGRITY', 'the store has lost a part of the compressor');
  const file = concat(...pieces);
  if (hex(await sha256(file)) !== digest)
    throw new HersError('INTEGRITY', 'the compressor is not the one that the manifest names');
  const compression = await openCompressor(file, request);
  if (compression.compressor.outputDimension !== dimension)
    throw new HersError('INTEGRITY', 'the compressor makes vectors of another dimension than the manifest says');
  return compression;
}
