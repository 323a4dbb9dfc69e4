// Every key of one collection, made when first needed from the master seed.

import { type Plan, plan } from '@hers/scheme';
import { type CollectionKey, MasterSeed } from '@hers/scheme/secret';
import type { PlainBatch, SealedBatch } from './batch.ts';
import { type Crew, makeCrew } from './crew.ts';
import type { Descriptor } from './descriptor.ts';
import { RecordKeys, sealKey } from './records.ts';
import { makeSealer, type Sealer } from './sealing.ts';

/** Records that are sealed without the crew. */
const FEW = 64;

export class Keyring {
  readonly descriptor: Descriptor;
  readonly plan: Plan;
  readonly records: RecordKeys;
  readonly #seed: MasterSeed;
  readonly #threads: number | undefined;
  readonly #sealers = new Map<number, Promise<Sealer>>();
  readonly #keys = new Map<number, CollectionKey>();
  readonly #crews = new Map<number, Promise<Crew>>();
  #manifestSealer: Promise<Sealer> | undefined;

  private constructor(seed: MasterSeed, descriptor: Descriptor, records: RecordKeys, threads?: number) {
    this.descriptor = descriptor;
    this.plan = plan(descriptor.request);
    this.records = records;
    this.#threads = threads;
    this.#seed = MasterSeed.from(seed.reveal());
  }

  static async make(seed: MasterSeed, descriptor: Descriptor, threads?: number): Promise<Keyring> {
    return new Keyring(seed, descriptor, await RecordKeys.of(seed, descriptor.id), threads);
  }

  get id(): Uint8Array {
    return this.descriptor.id;
  }

  /** Seals manifests, whatever the epoch. */
  manifestSealer(): Promise<Sealer> {
    this.#manifestSealer ??= makeSealer(this.#seed.deriveKey('manifest', this.id));
    return this.#manifestSealer;
  }

  /** Seals records and lists of one epoch. */
  sealer(epoch: number): Promise<Sealer> {
    let sealer = this.#sealers.get(epoch);
    if (!sealer) this.#sealers.set(epoch, (sealer = makeSealer(sealKey(this.#seed, this.id, epoch))));
    return sealer;
  }

  /** Names and seals records; a few are done sooner here than by a crew that may have to be gathered first. */
  async seal(epoch: number, batch: PlainBatch): Promise<SealedBatch> {
    if (batch.count <= FEW) return this.records.seal(await this.sealer(epoch), epoch, batch);
    return (await this.crew(epoch)).seal(batch);
  }

  key(epoch: number): CollectionKey {
    let key = this.#keys.get(epoch);
    if (!key) this.#keys.set(epoch, (key = this.#seed.collectionKey(this.plan, this.id, epoch)));
    return key;
  }

  crew(epoch: number): Promise<Crew> {
    let crew = this.#crews.get(epoch);
    if (!crew) {
      const material = { seed: this.#seed.reveal(), request: this.descriptor.request, collectionId: this.id, epoch };
      this.#crews.set(epoch, (crew = makeCrew(material, this.#threads)));
    }
    return crew;
  }

  async close(): Promise<void> {
    for (const crew of this.#crews.values()) await (await crew).close();
    for (const key of this.#keys.values()) key.wipe();
    this.#crews.clear();
    this.#keys.clear();
    this.#seed.wipe();
  }
}
