// Every key of one collection, made when first needed from the master seed.

import { type Plan, plan } from '@hers/scheme';
import type { MasterSeed } from '@hers/scheme/secret';
import type { PlainBatch, SealedBatch } from './batch.ts';
import type { Descriptor } from './descriptor.ts';
import { RecordKeys, sealingKey } from './records.ts';
import { makeSealer, type Sealer } from './sealing.ts';
import { type Model, Space } from './space.ts';

/** Records that are sealed without the crew. */
const FEW = 64;

export class Keyring {
  readonly descriptor: Descriptor;
  /** Of the vectors that people give; what is indexed of them is up to the space of each epoch. */
  readonly plan: Plan;
  readonly records: RecordKeys;
  readonly #seed: MasterSeed;
  readonly #threads: number | undefined;
  readonly #sealers = new Map<number, Promise<Sealer>>();
  readonly #spaces = new Map<string, Space>();
  #manifestSealer: Promise<Sealer> | undefined;

  private constructor(seed: MasterSeed, descriptor: Descriptor, records: RecordKeys, threads?: number) {
    this.descriptor = descriptor;
    this.plan = plan(descriptor.request);
    this.records = records;
    this.#threads = threads;
    this.#seed = seed.clone();
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
    if (!sealer) this.#sealers.set(epoch, (sealer = makeSealer(sealingKey(this.#seed, this.id, epoch))));
    return sealer;
  }

  /** Names and seals records; a few are done sooner here than by a crew that may have to be gathered first. */
  async seal(epoch: number, batch: PlainBatch): Promise<SealedBatch> {
    if (batch.count <= FEW) return this.records.seal(await this.sealer(epoch), epoch, batch);
    // What is indexed of a record does not matter here: any crew of the epoch will do.
    const space = [...this.#spaces.values()].findLast((each) => each.epoch === epoch) ?? this.space(epoch);
    return (await space.crew()).seal(batch);
  }

  /** The space of an epoch with this compressor, or with none. */
  space(epoch: number, model?: Model): Space {
    const name = `${epoch} ${model?.digest ?? ''}`;
    let space = this.#spaces.get(name);
    if (!space) {
      const material = { seed: this.#seed.reveal(), request: this.descriptor.request, collectionId: this.id, epoch };
      this.#spaces.set(name, (space = new Space(material, model, this.#threads)));
    }
    return space;
  }

  /** A compressor of this digest that was opened before, for any epoch. */
  knownModel(digest: string): Model | undefined {
    return [...this.#spaces.values()].find(({ model }) => model?.digest === digest)?.model;
  }

  async close(): Promise<void> {
    for (const space of this.#spaces.values()) await space.close();
    this.#spaces.clear();
    for (const sealer of [...this.#sealers.values(), this.#manifestSealer])
      (await sealer?.catch(() => undefined))?.wipe();
    this.#sealers.clear();
    this.#manifestSealer = undefined;
    this.records.wipe();
    this.#seed.wipe();
  }
}
