// Every key of one collection, made when first needed from the master seed.

import { type Plan, plan } from '@hers/scheme';
import { type CollectionKey, MasterSeed } from '@hers/scheme/secret';
import { concat, u32 } from './bytes.ts';
import { type Crew, makeCrew } from './crew.ts';
import type { Descriptor } from './descriptor.ts';
import { RecordKeys } from './records.ts';
import { makeSealer, type Sealer } from './sealing.ts';

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
    const { id } = descriptor;
    const records = await RecordKeys.make(id, seed.deriveKey('handles', id), seed.deriveKey('record versions', id));
    return new Keyring(seed, descriptor, records, threads);
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
    if (!sealer)
      this.#sealers.set(epoch, (sealer = makeSealer(this.#seed.deriveKey('seals', concat(this.id, u32(epoch))))));
    return sealer;
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
