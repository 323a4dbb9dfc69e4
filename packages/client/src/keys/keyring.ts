// Every key of one collection, made when first needed from the master seed.

import { type Plan, type PlanRequest, plan } from '@hers/scheme';
import type { MasterSeed } from '@hers/scheme/secret';
import { HersError, otherFormat, PARTITION_BYTES } from '@hers/service';
import { hmac } from '@noble/hashes/hmac.js';
import { sha256 } from '@noble/hashes/sha2.js';
import { fromHex, hex } from '../bytes.ts';
import type { PlainBatch, SealedBatch } from '../formats/batch.ts';
import type { Compression } from '../formats/compressors.ts';
import { RecordKeys, sealingKey } from '../formats/records.ts';
import { type KeyedHash, makeKeyedHash, makeSealer, type Sealer } from '../sealing/sealing.ts';
import { Space } from './space.ts';

/** Records that are sealed without the crew. */
const MAX_SEALED_HERE = 64;

export class Keyring {
  readonly descriptor: Descriptor;
  /** Of the vectors that callers give; the space of each epoch decides what is indexed of them. */
  readonly plan: Plan;
  readonly records: RecordKeys;
  readonly #partition: KeyedHash;
  readonly #seed: MasterSeed;
  readonly #threads: number | undefined;
  readonly #sealers = new Map<number, Promise<Sealer>>();
  readonly #spaces = new Map<string, Space>();
  #manifestSealer: Promise<Sealer> | undefined;

  private constructor(
    seed: MasterSeed,
    descriptor: Descriptor,
    records: RecordKeys,
    partition: KeyedHash,
    threads?: number,
  ) {
    this.descriptor = descriptor;
    this.plan = plan(descriptor.request);
    this.records = records;
    this.#partition = partition;
    this.#threads = threads;
    this.#seed = seed.clone();
  }

  static async make(seed: MasterSeed, descriptor: Descriptor, threads?: number): Promise<Keyring> {
    const [records, partition] = await Promise.all([
      RecordKeys.of(seed, descriptor.id),
      makeKeyedHash(seed.deriveKey('partitions', descriptor.id)),
    ]);
    return new Keyring(seed, descriptor, records, partition, threads);
  }

  get id(): Uint8Array {
    return this.descriptor.id;
  }

  /** All that a store sees of a partition, or of the records that are in none. */
  partitionHandle(name: string | undefined): Uint8Array {
    const text = new TextEncoder().encode(name ?? '');
    return this.#partition(Uint8Array.of(name === undefined ? 0 : 1), text).slice(0, PARTITION_BYTES);
  }

  /** Keys of the keeper, for all epochs: devices know it by them. The caller wipes both. */
  keeperKeys(): { readonly signing: Uint8Array; readonly sealing: Uint8Array } {
    return {
      signing: this.#seed.deriveKey('keeper signing', this.id),
      sealing: this.#seed.deriveKey('keeper sealing', this.id),
    };
  }

  manifestSealer(): Promise<Sealer> {
    this.#manifestSealer ??= makeSealer(this.#seed.deriveKey('manifest', this.id));
    return this.#manifestSealer;
  }

  /** Seals records and lists of one epoch. */
  sealer(epoch: number): Promise<Sealer> {
    let sealer = this.#sealers.get(epoch);
    if (!sealer) this.#sealers.set(epoch, (sealer = makeSealer(sealingKey(this.#seed, this.id, epoch))));
    return sealer;
  }

  /** Seals a few records here, faster than a crew that may have to start first. */
  async seal(epoch: number, batch: PlainBatch): Promise<SealedBatch> {
    if (batch.count <= MAX_SEALED_HERE) return this.records.seal(await this.sealer(epoch), epoch, batch);
    // What is indexed of a record does not matter here: any crew of the epoch will do.
    const space = [...this.#spaces.values()].findLast((each) => each.epoch === epoch) ?? this.space(epoch);
    return (await space.crew()).seal(batch);
  }

  /** The space of an epoch with this compressor, or with none. */
  space(epoch: number, compression?: Compression): Space {
    const name = `${epoch} ${compression?.digest ?? ''}`;
    let space = this.#spaces.get(name);
    if (!space) {
      const { request } = this.descriptor;
      const material = { seed: this.#seed.reveal(), request, collectionId: this.id, epoch };
      this.#spaces.set(name, (space = new Space(material, compression, this.#threads)));
    }
    return space;
  }

  /** A compressor of this digest that was opened before, for any epoch. */
  knownCompressor(digest: string): Compression | undefined {
    return [...this.#spaces.values()].find(({ compression }) => compression?.digest === digest)?.compression;
  }

  async close(): Promise<void> {
    for (const space of this.#spaces.values()) await space.close();
    this.#spaces.clear();
    for (const sealer of [...this.#sealers.values(), this.#manifestSealer])
      (await sealer?.catch(() => undefined))?.wipe();
    this.#sealers.clear();
    this.#manifestSealer = undefined;
    this.records.wipe();
    this.#partition.wipe();
    this.#seed.wipe();
  }
}

/** The id of a collection and the request of its plan: public, authenticated, and never changed. */
export interface Descriptor {
  readonly id: Uint8Array;
  readonly request: PlanRequest;
}

const FORMAT = 1;

function macOf(seed: MasterSeed, id: Uint8Array, text: string): string {
  const key = seed.deriveKey('descriptor', id);
  try {
    return hex(hmac(sha256, key, new TextEncoder().encode(text)));
  } finally {
    key.fill(0);
  }
}

export function encodeDescriptor(seed: MasterSeed, { id, request }: Descriptor): Uint8Array {
  const text = JSON.stringify({ descriptor: FORMAT, id: hex(id), request });
  return new TextEncoder().encode(JSON.stringify({ text, mac: macOf(seed, id, text) }));
}

/** WRONG_KEY where the collection was made with another key. */
export function openDescriptor(seed: MasterSeed, name: string, bytes: Uint8Array): Descriptor {
  const fail = (): never => {
    throw new HersError('INTEGRITY', `the description of collection ${JSON.stringify(name)} is damaged`);
  };
  try {
    const { text, mac } = JSON.parse(new TextDecoder().decode(bytes));
    const { descriptor, id, request } = JSON.parse(text);
    if (descriptor !== FORMAT) throw otherFormat(`collection ${JSON.stringify(name)}`);
    if (!/^[0-9a-f]{32}$/.test(id)) return fail();
    if (macOf(seed, fromHex(id), text) !== mac) {
      throw new HersError(
        'WRONG_KEY',
        `collection ${JSON.stringify(name)} was made with another key, or its description was altered; use the key it was made with`,
      );
    }
    return { id: fromHex(id), request };
  } catch (error) {
    if (error instanceof HersError) throw error;
    return fail();
  }
}
