// A large gallery without its vault: what a client would have written of blocks that somebody else
// has encrypted, so that a benchmark need not enrol a hundred million records one by one. Lists and
// manifest are as always; there are no sealed records, so nothing can be fetched.

import { decodeBlock } from '@hers/scheme';
import { MasterSeed } from '@hers/scheme/secret';
import type { Service } from '@hers/service';
import { hex, sha256 } from '../src/bytes.ts';
import { encrypted, keyFrom } from '../src/crew/crew.ts';
import { List, sealList } from '../src/formats/lists.ts';
import { emptyManifest, type ManifestBlock, sealManifest } from '../src/formats/manifest.ts';
import { sealingKey, VERSION_BYTES } from '../src/formats/records.ts';
import { Keyring, openDescriptor } from '../src/keys/keyring.ts';
import { makeSealer } from '../src/sealing/sealing.ts';

const EPOCH = 0;

export interface BulkBlock {
  /** As a store keeps it. */
  readonly encoded: Uint8Array;
  readonly list: Uint8Array;
  /** What the manifest says of it. */
  readonly entry: ManifestBlock;
}

export interface BulkMaker {
  /** Records of a block. */
  readonly capacity: number;
  /** A block of these vectors; the ids of their records are consecutive numbers. */
  make(vectors: Float32Array, firstId: number): Promise<BulkBlock>;
}

/** Encrypts blocks of the collection that a service has under this name. For workers too. */
export async function bulkMaker(seed: Uint8Array, name: string, sealedDescriptor: Uint8Array): Promise<BulkMaker> {
  using master = MasterSeed.from(seed);
  const descriptor = openDescriptor(master, name, sealedDescriptor);
  const { id } = descriptor;
  const key = keyFrom({ seed, request: descriptor.request, collectionId: id, epoch: EPOCH });
  const sealer = await makeSealer(sealingKey(master, id, EPOCH));
  return {
    capacity: key.plan.capacity,
    async make(vectors, firstId) {
      const count = vectors.length / key.plan.dimension;
      const { block, sums } = encrypted(key, vectors);
      const list = await sealList(sealer, id, listOf(firstId, count), sums);
      const entry: ManifestBlock = {
        ...{ id: hex(decodeBlock(block).blockId), hash: hex(await sha256(block)), epoch: EPOCH },
        ...{ count, list: hex(await sha256(list)), dead: [] },
      };
      return { encoded: block, list, entry };
    },
  };
}

function listOf(firstId: number, count: number): List {
  const text = Array.from({ length: count }, (_, i) => String(firstId + i));
  const ends = new Uint32Array(count);
  let end = 0;
  for (let i = 0; i < count; i++) ends[i] = end += text[i].length;
  return new List(new TextEncoder().encode(text.join('')), ends, new Uint8Array(count * VERSION_BYTES));
}

/** The manifest of a collection that consists of these blocks; the second version of it. */
export async function bulkManifest(
  service: Service,
  seed: MasterSeed,
  name: string,
  blocks: readonly ManifestBlock[],
): Promise<Uint8Array> {
  const { descriptor } = await service.getCollection(name);
  const keyring = await Keyring.make(seed, openDescriptor(seed, name, descriptor), 1);
  try {
    const manifest = { ...emptyManifest(2), blocks };
    return await sealManifest(await keyring.manifestSealer(), keyring.id, manifest);
  } finally {
    await keyring.close();
  }
}
