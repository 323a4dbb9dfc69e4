// The space of an epoch: what its blocks hold, the vectors themselves or what a compressor makes of
// them, and the keys for it. A key belongs to the whole plan, so another compressor means another
// epoch (or an epoch in which nothing is indexed yet).

import { type Plan, plan, slotsFor } from '@hers/scheme';
import type { CanaryPlace, CollectionKey } from '@hers/scheme/secret';
import { type DeviceRanking, openRanking } from '../crew/accelerator.ts';
import { type Crew, InProcessCrypto, type KeyMaterial, keyFrom } from '../crew/crew.ts';
import type { Compression } from '../formats/compressors.ts';
import type { ManifestBlock } from '../formats/manifest.ts';
import type { PendingRecord, PlainRecord, Projection } from '../formats/records.ts';
import { wipedKey } from '../sealing/sealing.ts';

type Indexable = PlainRecord | PendingRecord;

export class Space {
  readonly epoch: number;
  readonly compression: Compression | undefined;
  /** Of what is indexed: with a compressor, it has the compressor's output dimension. */
  readonly plan: Plan;
  readonly #material: KeyMaterial;
  readonly #threads: number | undefined;
  #key: CollectionKey | undefined;
  #crew: Promise<Crew> | undefined;
  #device: DeviceRanking | undefined;
  #isClosed = false;
  readonly #projected = new WeakMap<Indexable, Float32Array>();

  /** The request in the material is about full vectors. */
  constructor(material: KeyMaterial, compression?: Compression, threads?: number) {
    const { request: given } = material;
    const request = compression ? { ...given, dimension: compression.compressor.outputDimension } : given;
    this.#material = { ...material, request };
    this.epoch = material.epoch;
    this.compression = compression;
    this.plan = plan(request);
    this.#threads = threads;
  }

  canariesOf(block: ManifestBlock): CanaryPlace {
    return { id: block.id, slots: slotsFor(this.plan, block.count) };
  }

  key(): CollectionKey {
    this.#checkOpen();
    this.#key ??= keyFrom(this.#material);
    return this.#key;
  }

  async crew(): Promise<Crew> {
    this.#checkOpen();
    this.#crew ??= makeCrew(this.#material, this.#threads);
    return this.#crew;
  }

  /** A seed that was overwritten would make keys as well, which everybody knows. */
  #checkOpen(): void {
    if (this.#isClosed) throw wipedKey();
  }

  /** Ranks responses where a store in this process has left them, if that is possible here. */
  device(): DeviceRanking | undefined {
    if (this.plan.profile === 'open') return undefined;
    this.#device ??= openRanking?.(() => this.key());
    return this.#device?.isSpent ? undefined : this.#device;
  }

  /** What is indexed of vectors that lie one after the other. */
  async project(vectors: Float32Array): Promise<Float32Array> {
    return this.compression && vectors.length > 0 ? this.compression.compressor.transform(vectors) : vectors;
  }

  /** Whether projections are sealed with records: a network may round differently elsewhere. */
  get sealsProjections(): boolean {
    return this.compression !== undefined && !this.compression.compressor.reproducible;
  }

  /** What is indexed of a record, as it is sealed with it, where that is known. */
  projectionOf(record: Indexable): Projection | undefined {
    if (!this.sealsProjections) return undefined;
    if (record.projection?.epoch === this.epoch) return record.projection;
    const values = this.#projected.get(record);
    return values && { epoch: this.epoch, values };
  }

  /** The same for records, cached: every search compares the pending ones. */
  async projectRecords(records: readonly Indexable[]): Promise<Float32Array> {
    if (!this.compression) return packVectors(records, this.plan.dimension);
    for (const record of records)
      if (record.projection?.epoch === this.epoch && this.sealsProjections)
        this.#projected.set(record, record.projection.values);
    const fresh = records.filter((record) => !this.#projected.has(record));
    const { inputDimension, outputDimension } = this.compression.compressor;
    const made = await this.project(packVectors(fresh, inputDimension));
    fresh.forEach((record, i) => {
      this.#projected.set(record, made.slice(i * outputDimension, (i + 1) * outputDimension));
    });
    const out = new Float32Array(records.length * outputDimension);
    records.forEach((record, i) => {
      out.set(this.#projected.get(record)!, i * outputDimension);
    });
    return out;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await (await this.#crew?.catch(() => undefined))?.close();
    await this.#device?.close();
    this.#key?.wipe();
    this.#material.seed.fill(0);
    this.#crew = undefined;
    this.#key = undefined;
  }
}

function packVectors(records: readonly Indexable[], dimension: number): Float32Array {
  const out = new Float32Array(records.length * dimension);
  records.forEach((record, j) => {
    out.set(record.vector, j * dimension);
  });
  return out;
}

/**
 * Starts a crew on all cores, if the platform can. No worker imports this file: bundlers would find
 * a worker within the worker.
 */
async function makeCrew(material: KeyMaterial, threads?: number): Promise<Crew> {
  if (threads === 1) return new InProcessCrypto(material);
  const { startWorkers } = await import('#crew');
  return (await startWorkers(material, threads)) ?? new InProcessCrypto(material);
}
