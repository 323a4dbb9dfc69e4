// A gallery that was made in bulk, in the memory of a kernel: workers encrypt blocks with the
// product's own code straight into segments. Lists and manifest are as always. Only what a search
// takes is there of a store; there are no sealed records, and nothing is on disk.

import { availableParallelism } from 'node:os';
import { Worker as Thread } from 'node:worker_threads';
import { type CollectionOptions, Database, HersError, type MasterSeed } from '@hers/client';
import { bulkMaker, bulkManifest } from '@hers/client/testing/bulk';
import { batchesOf, type Kernel, type SegmentHandle } from '@hers/scan';
import { decodeQuery } from '@hers/scheme';
import { type CollectionInfo, Grouped, type Service } from '@hers/service';
import type { BulkSegment, BulkTask } from './bulk-worker.ts';

const NAME = 'bench';
/** As many as the store puts into a segment of this size. */
const BLOCKS_PER_SEGMENT = 64;

/** What a search in this process takes of a store. */
class KernelService {
  readonly kernel: Kernel;
  readonly handles: SegmentHandle[] = [];
  readonly lists: Map<string, Uint8Array> = new Map();
  info: CollectionInfo | undefined;
  manifest: Uint8Array = new Uint8Array(0);
  /** Milliseconds at which the last search began, had its responses, and ended. */
  last: { began: number; scanned: number; ended: number } = { began: 0, scanned: 0, ended: 0 };

  constructor(kernel: Kernel) {
    this.kernel = kernel;
  }

  async createCollection(
    name: string,
    created: { id: Uint8Array; descriptor: Uint8Array; manifest: Uint8Array },
  ): Promise<void> {
    const { id, descriptor } = created;
    this.info = { name, id, descriptor, version: 1, records: 0, blocks: 0, bytes: 0 };
    this.manifest = Uint8Array.from(created.manifest);
  }

  async getCollection(): Promise<CollectionInfo> {
    if (!this.info) throw new HersError('NOT_FOUND', 'there is no such collection');
    return this.info;
  }

  async getManifest(): Promise<{ version: number; manifest: Uint8Array }> {
    return { version: this.info!.version, manifest: this.manifest };
  }

  async *getRecords(): AsyncGenerator<never> {}

  async *getLists(_: string, ids: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
    for (const id of ids) yield this.lists.get(Buffer.from(id).toString('hex'))!;
  }

  search(...request: Parameters<Service['search']>): Grouped<Uint8Array> {
    return new Grouped(() => this.#search(...request));
  }

  async *#search(...[, request, options = {}]: Parameters<Service['search']>): AsyncGenerator<readonly Uint8Array[]> {
    const began = performance.now();
    const queries = request.queries.map((encoded) => decodeQuery(encoded));
    const calling = options.signal ? { signal: options.signal } : {};
    let scanned = began;
    const kept = options.keep && (await this.kernel.keep?.(this.handles, queries, calling));
    if (options.keep && kept) {
      const { handle, device, forget } = kept;
      scanned = performance.now();
      try {
        await options.keep({ handle, device, queries: queries.map((_, i) => i), only: undefined });
      } finally {
        forget();
      }
    } else {
      for await (const batch of batchesOf(this.kernel, this.handles, queries, calling))
        yield batch.map(({ response }) => new Uint8Array(response));
      scanned = performance.now();
    }
    this.last = { began, scanned, ended: performance.now() };
  }

  async close(): Promise<void> {
    await this.kernel.close();
  }
}

export interface BulkGallery {
  readonly service: Service & Pick<KernelService, 'last'>;
  readonly name: string;
  readonly blocks: number;
  /** Records of a full block. */
  readonly capacity: number;
  /** For each probe the best record, in the clear. */
  readonly best: readonly (readonly [id: number, score: number])[];
  readonly seconds: number;
}

export async function bulkGallery(
  kernel: Kernel,
  key: MasterSeed,
  shape: { readonly count: number; readonly dimension: number; readonly probes: number },
  plan: Pick<CollectionOptions, 'profile' | 'integrity'>,
  report: (segments: number, of: number) => void,
): Promise<BulkGallery> {
  const own = new KernelService(kernel);
  const service = own as unknown as Service & KernelService;
  const db = new Database(service, { key });
  await db.createCollection(NAME, { dimension: shape.dimension, ...plan });
  const seed = key.reveal();
  const task: BulkTask = {
    ...{ seed, name: NAME, descriptor: own.info!.descriptor, ...shape },
    blocksPerSegment: BLOCKS_PER_SEGMENT,
  };
  const { capacity } = await bulkMaker(seed, NAME, own.info!.descriptor);
  const total = Math.ceil(shape.count / (BLOCKS_PER_SEGMENT * capacity));
  const start = performance.now();
  const best: [number, number][] = Array.from({ length: shape.probes }, () => [-1, Number.NEGATIVE_INFINITY]);
  const segments: BulkSegment['blocks'][] = [];
  let [next, done] = [0, 0];
  /** Loading takes its turn, and a worker that is far ahead waits for it. */
  const take = async ({ number, bytes, blocks, best: ofSegment }: BulkSegment) => {
    const handle = await kernel.load({ bytes, name: `segment ${number}` });
    own.handles[number] = handle;
    segments[number] = blocks;
    for (const [p, [id, score]] of ofSegment.entries()) if (score > best[p][1]) best[p] = [id, score];
    report(++done, total);
  };
  const work = () =>
    new Promise<void>((resolve, reject) => {
      const thread = new Thread(new URL('./bulk-worker.ts', import.meta.url), { workerData: task });
      const give = () => {
        if (next < total) thread.postMessage(next++);
        else resolve(void thread.terminate());
      };
      thread.on('error', reject);
      thread.on('message', (segment: BulkSegment) => take(segment).then(give, reject));
      give();
    });
  await Promise.all(Array.from({ length: Math.min(availableParallelism(), total) }, work));
  const entries = segments.flat();
  for (const { list, entry } of entries) own.lists.set(entry.list, list);
  own.manifest = Uint8Array.from(
    await bulkManifest(
      service,
      key,
      NAME,
      entries.map(({ entry }) => entry),
    ),
  );
  own.info = { ...own.info!, version: 2, blocks: entries.length };
  seed.fill(0);
  return { service, name: NAME, blocks: entries.length, capacity, best, seconds: (performance.now() - start) / 1000 };
}
