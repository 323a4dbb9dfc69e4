// Changes and searches of a collection, and a history that decides whether every answer was true:
// each answer is that of a version which was acknowledged when its search began, or of a later one,
// and holds exactly what that version holds.

import assert from 'node:assert/strict';
import { type Block, HersError } from '@hers/scheme';
import type { SealedRecord, Service } from '@hers/service';
import { encodeBlock, encodeQuery, expectedResponses, Samples } from '@hers/service/samples';

/** What the collection holds at a version. */
interface State {
  readonly records: ReadonlyMap<string, SealedRecord>;
  readonly blocks: ReadonlyMap<string, Block>;
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const sorted = (all: Iterable<Uint8Array>) => [...all].map(hex).sort();
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
const isCode = (error: unknown, ...codes: string[]) => error instanceof HersError && codes.includes(error.code);

/** What may fail while something is broken. Nothing may be wrong. */
const PASSING = ['UNAVAILABLE', 'OVERLOADED', 'TIMED_OUT', 'STORAGE', 'CLOSED'];

export class ChangeHistory {
  static readonly COLLECTION = 'history';
  readonly #samples: Samples;
  readonly #open: () => Service;
  readonly #states = new Map<number, State>([[1, { records: new Map(), blocks: new Map() }]]);
  #acknowledged = 1;
  #running = false;
  #ended = false;
  /** Changes that were acknowledged. */
  changes = 0;
  /** How many of them replaced all blocks, as a change of keys does. */
  rotations = 0;
  /** Searches that were answered, each checked against the version that it was of. */
  searches = 0;
  /** Calls that failed because something could not be reached. */
  unavailable = 0;
  /** What the last search that failed was told. */
  refusal = '';
  /** When something last succeeded. */
  readonly last = { change: performance.now(), search: performance.now() };

  /** `open` gives the service of a client, which may be another one each time. */
  constructor(seed: number, open: () => Service) {
    this.#samples = new Samples(seed);
    this.#open = open;
  }

  get acknowledged(): number {
    return this.#acknowledged;
  }

  #manifestOf(version: number): Uint8Array {
    return new TextEncoder().encode(`version ${version}, ${hex(this.#samples.id())}`);
  }

  async begin(): Promise<void> {
    const made = { id: this.#samples.id(), descriptor: new Uint8Array(1), manifest: this.#manifestOf(1) };
    await this.#open().createCollection(ChangeHistory.COLLECTION, made);
  }

  /** One change, retried with the same manifest until it is acknowledged. */
  async change(): Promise<void> {
    const version = this.#acknowledged + 1;
    const before = this.#states.get(this.#acknowledged)!;
    const rotates = version % 10 === 0;
    const added = this.#samples.records(4);
    const fresh = Array.from({ length: rotates ? 3 : 1 }, () => this.#samples.block());
    const removed = [...before.records.values()].slice(0, version % 2 === 0 ? 3 : 4);
    const dropped = rotates
      ? [...before.blocks.values()]
      : version % 3 === 0
        ? [...before.blocks.values()].slice(0, 1)
        : [];
    const records = new Map(before.records);
    for (const { handle } of removed) records.delete(hex(handle));
    for (const record of added) records.set(hex(record.handle), record);
    const blocks = new Map(before.blocks);
    for (const { blockId } of dropped) blocks.delete(hex(blockId));
    for (const block of fresh) blocks.set(hex(block.blockId), block);
    const manifest = this.#manifestOf(version);
    // It may become visible before it is acknowledged.
    this.#states.set(version, { records, blocks });
    for (;;) {
      try {
        const service = this.#open();
        const staged = [];
        for (const block of fresh)
          staged.push(await service.stageBlock(ChangeHistory.COLLECTION, [encodeBlock(block)]));
        const made = await service.commit(ChangeHistory.COLLECTION, {
          expected: this.#acknowledged,
          manifest,
          records: [await service.stageRecords(ChangeHistory.COLLECTION, added)],
          blocks: staged,
          removed: removed.map(({ handle }) => handle),
          dropped: dropped.map(({ blockId }) => blockId),
        });
        assert.equal(made, version);
        break;
      } catch (error) {
        // NOT_FOUND: what was staged did not reach a majority, and is staged again.
        if (!isCode(error, 'NOT_FOUND', ...PASSING) || this.#ended) throw error;
        this.unavailable++;
        await pause(30);
      }
    }
    this.#acknowledged = version;
    this.changes++;
    if (rotates) this.rotations++;
    this.last.change = performance.now();
    // Nobody searches at these any more: a search knows versions of half a minute.
    for (const old of this.#states.keys()) if (old < version - 2000) this.#states.delete(old);
  }

  async search(): Promise<void> {
    const least = this.#acknowledged;
    const query = this.#samples.query();
    try {
      const service = this.#open();
      const { version } = await service.getManifest(ChangeHistory.COLLECTION);
      assert.ok(version >= least, `version ${version} was read after ${least} was acknowledged`);
      assert.ok(this.#states.has(version), `version ${version} was never made`);
      const request = { version, queries: [encodeQuery(query)] };
      const found = await Array.fromAsync(service.search(ChangeHistory.COLLECTION, request));
      const expected = expectedResponses(this.#states.get(version)!.blocks.values(), [query]);
      assert.deepEqual(sorted(found), sorted(expected), `an answer of version ${version}`);
      this.searches++;
      this.last.search = performance.now();
    } catch (error) {
      // STALE: the version that was read is older than half a minute.
      if (!isCode(error, 'STALE', ...PASSING)) throw error;
      this.refusal = (error as Error).message;
      this.unavailable++;
      await pause(20);
    }
  }

  /** Changes and searches until `stop`. */
  async run(): Promise<void> {
    this.#running = true;
    const repeat = async (work: () => Promise<void>) => {
      try {
        while (this.#running) {
          await work();
          await pause(1);
        }
      } finally {
        this.#running = false;
      }
    };
    await Promise.all([repeat(() => this.change()), repeat(() => this.search())]);
  }

  get isRunning(): boolean {
    return this.#running;
  }

  stop(): void {
    this.#running = false;
  }

  /** Gives up what is being retried. */
  end(): void {
    this.#running = false;
    this.#ended = true;
  }

  /** All that was acknowledged is there, and nothing else. */
  async check(service: Service): Promise<void> {
    const final = this.#states.get(this.#acknowledged)!;
    const wanted = [...final.records.values()];
    const handles = wanted.map(({ handle }) => handle);
    const found = await Array.fromAsync(service.getRecords(ChangeHistory.COLLECTION, handles));
    assert.deepEqual(
      found.map(({ sealed }) => hex(sealed)),
      wanted.map(({ sealed }) => hex(sealed)),
    );
    const { version, records, blocks } = await service.getCollection(ChangeHistory.COLLECTION);
    assert.deepEqual([version, records, blocks], [this.#acknowledged, wanted.length, final.blocks.size]);
    const query = this.#samples.query();
    const answers = await Array.fromAsync(
      service.search(ChangeHistory.COLLECTION, { version, queries: [encodeQuery(query)] }),
    );
    assert.deepEqual(sorted(answers), sorted(expectedResponses(final.blocks.values(), [query])));
  }
}
