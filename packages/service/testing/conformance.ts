// What every Service must do. Each implementation runs this suite in a test of its own:
//
//   conformance('a folder', async () => ({ service, reopen, done }));

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import {
  type Block,
  type ErrorCode,
  encodeBlock,
  encodeQuery,
  HersError,
  peekAnyResponse,
  peekQuery,
  type Query,
} from '@hers/scheme';
import type { EnvelopeHead } from '../src/envelope.ts';
import { freeBytes } from '../src/frames.ts';
import { decodeSections, encodeSections, type Partitions, type Section, SHARED } from '../src/partitions.ts';
import type { Change, InboxRange, SealedRecord, Service } from '../src/service.ts';
import { OpenSamples } from './open-samples.ts';
import { expectedResponses, type SampleShape, Samples, sampleEnvelope } from './samples.ts';

export interface Opened {
  readonly service: Service;
  /** Closes it and opens the same again, where that means anything. */
  readonly reopen?: () => Promise<Service>;
  /** What is staged can be committed after that, too; and versions of a moment ago be searched. */
  readonly keepsStages?: boolean;
  /** The same, for somebody who is held to these partitions of a collection. */
  readonly heldTo: (collection: string, partitions: Partitions) => Promise<Service>;
  /** Closes it and removes what it stored. */
  done(): Promise<void>;
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const sorted = (all: Iterable<Uint8Array>) => [...all].map(hex).sort();
const joined = async (pieces: AsyncIterable<Uint8Array>) => Buffer.concat(await Array.fromAsync(pieces));
const listId = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest());
const text = (value: string) => new TextEncoder().encode(value);

const fails =
  (code: ErrorCode, ...others: ErrorCode[]) =>
  (error: unknown) =>
    error instanceof HersError && [code, ...others].includes(error.code);

/** Reads to the end. */
async function drain(items: AsyncIterable<unknown>): Promise<void> {
  for await (const _ of items);
}

/** A service that holds every call to these partitions, as a server does for a token. */
export function heldTo(service: Service, partitions: Partitions): Service {
  return {
    createCollection: (...args) => service.createCollection(...args),
    listCollections: () => service.listCollections(),
    getCollection: (name) => service.getCollection(name),
    deleteCollection: (name) => service.deleteCollection(name),
    getManifest: (name, options) => service.getManifest(name, { ...options, partitions }),
    stageRecords: (name, records, options) => service.stageRecords(name, records, { ...options, partitions }),
    stageList: (name, sealed, options) => service.stageList(name, sealed, { ...options, partitions }),
    stageBlock: (name, pieces, options) => service.stageBlock(name, pieces, { ...options, partitions }),
    commit: (name, change, options) => service.commit(name, change, { ...options, partitions }),
    getRecords: (name, handles, options) => service.getRecords(name, handles, { ...options, partitions }),
    getLists: (name, ids, options) => service.getLists(name, ids, { ...options, partitions }),
    getBlock: (name, id, options) => service.getBlock(name, id, { ...options, partitions }),
    search: (name, request, options) => service.search(name, request, { ...options, partitions }),
    post: (name, envelope, options) => service.post(name, envelope, { ...options, partitions }),
    takeInbox: (name, range, options) => service.takeInbox(name, range, { ...options, partitions }),
    dropInbox: (name, numbers, options) => service.dropInbox(name, numbers, { ...options, partitions }),
    refuseDevices: (name, devices, options) => service.refuseDevices(name, devices, { ...options, partitions }),
    purge: (name, options) => service.purge(name, { ...options, partitions }),
    snapshot: (name, options) => service.snapshot(name, { ...options, partitions }),
    restore: (name, pieces, options) => service.restore(name, pieces, { ...options, partitions }),
    close: async () => {},
  };
}

/** Drives one collection, and knows what it must hold. */
class Model {
  service: Service;
  readonly name: string;
  readonly samples: Samples;
  readonly records = new Map<string, SealedRecord>();
  readonly lists = new Map<string, Uint8Array>();
  readonly blocks = new Map<string, Block>();
  version = 1;
  manifest: Uint8Array;

  private constructor(service: Service, name: string, seed: number) {
    this.service = service;
    this.name = name;
    this.samples = new Samples(seed);
    this.manifest = text(`${name} 1`);
  }

  static async create(service: Service, name = 'faces', seed = 1): Promise<Model> {
    const model = new Model(service, name, seed);
    const id = model.samples.id();
    await service.createCollection(name, { id, descriptor: text(`about ${name}`), manifest: model.manifest });
    return model;
  }

  /** A change on top of what is known, with a manifest of its own. */
  change(rest: Partial<Change> = {}): Change {
    return {
      expected: this.version,
      manifest: text(`${this.name} ${this.version + 1} ${hex(this.samples.id())}`),
      ...rest,
    };
  }

  async commit(rest: Partial<Change> = {}): Promise<void> {
    const change = this.change(rest);
    assert.equal(await this.service.commit(this.name, change), this.version + 1);
    this.version++;
    this.manifest = change.manifest;
  }

  async addRecords(records: readonly SealedRecord[]): Promise<void> {
    await this.commit({ records: [await this.service.stageRecords(this.name, records)] });
    for (const record of records) this.records.set(hex(record.handle), record);
  }

  async addLists(...lists: Uint8Array[]): Promise<void> {
    const stages = await Promise.all(lists.map((list) => this.service.stageList(this.name, list)));
    await this.commit({ lists: stages });
    for (const list of lists) this.lists.set(hex(listId(list)), list);
  }

  async addBlocks(...blocks: Block[]): Promise<void> {
    const stages = await Promise.all(blocks.map((block) => this.service.stageBlock(this.name, [encodeBlock(block)])));
    await this.commit({ blocks: stages });
    for (const block of blocks) this.blocks.set(hex(block.blockId), block);
  }

  async dropBlocks(...blocks: Block[]): Promise<void> {
    await this.commit({ dropped: blocks.map((block) => block.blockId) });
    for (const block of blocks) this.blocks.delete(hex(block.blockId));
  }

  /** A little of everything. */
  async fill(): Promise<void> {
    const { samples } = this;
    await this.addRecords(samples.records(300));
    await this.addLists(samples.bytes(500), samples.bytes(0), samples.bytes(70_000));
    await this.addBlocks(
      samples.block(),
      samples.block({ count: 7 }),
      samples.block({ set: 'insecure_n_64_logq_30_30_wide_4', keyId: new Uint8Array(16).fill(2) }),
    );
    const [gone, replaced] = this.records.values();
    const next = { handle: replaced.handle, sealed: samples.bytes(99) };
    await this.commit({ removed: [gone.handle], records: [await this.service.stageRecords(this.name, [next])] });
    this.records.delete(hex(gone.handle));
    this.records.set(hex(next.handle), next);
  }

  /** Two for the first key of the blocks, one for each other. */
  queries(): Query[] {
    const shapes = new Map<string, SampleShape>();
    for (const { parameters, width, keyId } of this.blocks.values())
      shapes.set(hex(keyId), { set: parameters.name, width, keyId });
    return [...[...shapes.values()].slice(0, 1), ...shapes.values()].map((shape) => this.samples.query(shape));
  }

  search(queries: readonly Query[], blocks?: readonly Block[], options: { signal?: AbortSignal } = {}) {
    const only = blocks ? { blocks: blocks.map((block) => block.blockId) } : {};
    return this.service.search(
      this.name,
      { version: this.version, queries: queries.map((query) => encodeQuery(query)), ...only },
      options,
    );
  }

  async checkSearch(...queries: Query[]): Promise<void> {
    const expected = expectedResponses(this.blocks.values(), queries);
    assert.deepEqual(sorted(await Array.fromAsync(this.search(queries))), sorted(expected));
  }

  /** Everything is there, and nothing else. */
  async check(name = this.name): Promise<void> {
    const { service } = this;
    const info = await service.getCollection(name);
    assert.deepEqual(
      { version: info.version, records: info.records, blocks: info.blocks },
      { version: this.version, records: this.records.size, blocks: this.blocks.size },
    );
    const { version, manifest } = await service.getManifest(name);
    assert.deepEqual({ version, manifest: hex(manifest) }, { version: this.version, manifest: hex(this.manifest) });
    const records = [...this.records.values()].reverse();
    const found = await Array.fromAsync(
      service.getRecords(
        name,
        records.map((record) => record.handle),
      ),
    );
    assert.deepEqual(found.map(flat), records.map(flat));
    const lists = [...this.lists.values()];
    assert.deepEqual((await Array.fromAsync(service.getLists(name, lists.map(listId)))).map(hex), lists.map(hex));
    for (const block of this.blocks.values())
      assert.deepEqual(hex(await joined(service.getBlock(name, block.blockId))), hex(encodeBlock(block)));
    const queries = this.queries();
    const responses = service.search(name, { version, queries: queries.map((query) => encodeQuery(query)) });
    assert.deepEqual(
      sorted(await Array.fromAsync(responses)),
      sorted(expectedResponses(this.blocks.values(), queries)),
    );
  }
}

const flat = ({ handle, sealed }: SealedRecord) => `${hex(handle)}:${hex(sealed)}`;

/** Runs the suite against what `open` gives; each test opens its own. */
export function conformance(name: string, open: () => Promise<Opened>): void {
  const test = (title: string, body: (service: Service, opened: Opened) => Promise<void>) =>
    it(title, async () => {
      const opened = await open();
      try {
        await body(opened.service, opened);
      } finally {
        await opened.done();
      }
    });

  describe(`conformance: ${name}`, () => {
    test('collections are created, listed, described and deleted by name', async (service) => {
      assert.deepEqual(await service.listCollections(), []);
      const faces = await Model.create(service, 'faces');
      const prints = await Model.create(service, 'Finger-prints_2.v1', 2);
      const made = { id: faces.samples.id(), descriptor: text('x'), manifest: text('y') };
      await assert.rejects(service.createCollection('faces', made), fails('ALREADY_EXISTS'));
      for (const bad of ['', '.hidden', 'a/b', '../x', 'ä', 'a b', 'x'.repeat(65)])
        await assert.rejects(service.createCollection(bad, made), fails('INVALID_ARGUMENT'));
      await assert.rejects(
        service.createCollection('short', { ...made, id: new Uint8Array(3) }),
        fails('INVALID_ARGUMENT'),
      );
      assert.deepEqual((await service.listCollections()).map((info) => info.name).sort(), [
        'Finger-prints_2.v1',
        'faces',
      ]);
      assert.equal(hex((await service.getCollection('faces')).descriptor), hex(text('about faces')));
      await faces.fill();
      await prints.fill();
      await service.deleteCollection('faces');
      await assert.rejects(service.getCollection('faces'), fails('NOT_FOUND'));
      await assert.rejects(service.deleteCollection('faces'), fails('NOT_FOUND'));
      await assert.rejects(service.getManifest('faces'), fails('NOT_FOUND'));
      await assert.rejects(service.stageList('faces', text('x')), fails('NOT_FOUND'));
      await assert.rejects(drain(service.getRecords('faces', [])), fails('NOT_FOUND'));
      await prints.check();
      await (await Model.create(service, 'faces', 3)).fill();
      await prints.check();
    });

    test('what was committed is read back, in the order it is asked for', async (service, { reopen }) => {
      const model = await Model.create(service);
      await model.check();
      await model.fill();
      await model.check();
      assert.ok((await service.getCollection('faces')).bytes > 70_000);
      if (!reopen) return;
      model.service = await reopen();
      await model.check();
      await model.fill();
      await model.check();
    });

    test('a record or list is asked for once, and a block scanned once however often it is named', async (service) => {
      const model = await Model.create(service);
      await model.fill();
      const [first, second] = [...model.records.values()].map(({ handle }) => handle);
      const [one, two] = [...model.lists.values()].map(listId);
      await assert.rejects(drain(service.getRecords('faces', [second, first, second])), fails('INVALID_ARGUMENT'));
      await assert.rejects(drain(service.getLists('faces', [one, two, one])), fails('INVALID_ARGUMENT'));
      const [block] = model.blocks.values();
      const query = model.samples.query();
      const found = await Array.fromAsync(model.search([query], [block, block, block]));
      assert.deepEqual(sorted(found), sorted(expectedResponses([block], [query])));
      await model.check();
    });

    test('what is staged is not visible until it is committed', async (service, { reopen, keepsStages }) => {
      const model = await Model.create(service);
      await model.fill();
      const record = model.samples.record();
      const list = model.samples.bytes(100);
      const block = model.samples.block();
      const records = [await service.stageRecords('faces', [record])];
      const lists = [await service.stageList('faces', list)];
      const blocks = [await service.stageBlock('faces', [encodeBlock(block)])];
      await model.check();
      await assert.rejects(drain(service.getRecords('faces', [record.handle])), fails('NOT_FOUND'));
      await assert.rejects(drain(service.getLists('faces', [listId(list)])), fails('NOT_FOUND'));
      await assert.rejects(drain(service.getBlock('faces', block.blockId)), fails('NOT_FOUND'));
      await assert.rejects(drain(model.search([model.samples.query()], [block])), fails('NOT_FOUND'));
      if (!reopen) return;
      model.service = await reopen();
      await model.check();
      if (keepsStages) {
        await model.commit({ records, lists, blocks });
        model.records.set(hex(record.handle), record);
        model.lists.set(hex(listId(list)), list);
        model.blocks.set(hex(block.blockId), block);
        await model.check();
        return;
      }
      await assert.rejects(model.service.commit('faces', model.change({ records })), fails('NOT_FOUND'));
      await assert.rejects(model.service.commit('faces', model.change({ lists })), fails('NOT_FOUND'));
      await assert.rejects(model.service.commit('faces', model.change({ blocks })), fails('NOT_FOUND'));
      await model.check();
    });

    test('records are replaced and removed; later ones win', async (service) => {
      const model = await Model.create(service);
      const { samples } = model;
      await model.addRecords(samples.records(50));
      const [a, b, c] = model.records.values();
      const again = (record: SealedRecord) => ({ handle: record.handle, sealed: samples.bytes(80) });
      const [a1, a2, b1] = [again(a), again(a), again(b)];
      // The same handle within a batch, over two batches, and both removed and written in one
      // change.
      const stages = [await service.stageRecords('faces', [a1, a2]), await service.stageRecords('faces', [b1])];
      await model.commit({ removed: [b.handle, c.handle, samples.id()], records: stages });
      for (const record of [a2, b1]) model.records.set(hex(record.handle), record);
      model.records.delete(hex(c.handle));
      await model.check();
      await assert.rejects(drain(service.getRecords('faces', [a.handle, c.handle])), fails('NOT_FOUND'));
      await model.addRecords([again(c)]);
      await model.check();
    });

    test('lists have the hash of their bytes for a name, and may be large', async (service) => {
      const model = await Model.create(service);
      const large = model.samples.bytes(6_000_000);
      await model.addLists(large, text('small'));
      await model.check();
      // The same list again is the same list.
      await model.addLists(text('small'));
      await model.check();
      await model.commit({ droppedLists: [listId(large)] });
      model.lists.delete(hex(listId(large)));
      await model.check();
      await assert.rejects(drain(service.getLists('faces', [listId(large)])), fails('NOT_FOUND'));
      await assert.rejects(
        service.commit('faces', model.change({ droppedLists: [listId(large)] })),
        fails('NOT_FOUND'),
      );
      const stage = await service.stageList('faces', text('small'));
      await model.commit({ droppedLists: [listId(text('small'))], lists: [stage] });
      await model.check();
    });

    test('blocks come in pieces cut anywhere, and go out as they came', async (service) => {
      const model = await Model.create(service);
      const block = model.samples.block({ set: 'insecure_n_64_logq_30_30_wide_4', width: 9 });
      const encoded = encodeBlock(block);
      const pieces = async function* () {
        for (let at = 0; at < encoded.length; at += 1001) yield encoded.subarray(at, at + 1001);
      };
      await model.commit({ blocks: [await service.stageBlock('faces', pieces())] });
      model.blocks.set(hex(block.blockId), block);
      await model.check();
      const altered = Uint8Array.from(encoded, (byte, i) => (i === 500 ? byte ^ 1 : byte));
      for (const bad of [[], [text('no block')], [encoded.subarray(0, -1)], [altered], [encoded, encoded]])
        await assert.rejects(service.stageBlock('faces', bad), fails('MALFORMED', 'DAMAGED'));
      const same = await service.stageBlock('faces', [encoded]);
      await assert.rejects(service.commit('faces', model.change({ blocks: [same] })), fails('ALREADY_EXISTS'));
      // Dropped and brought back in one change.
      await model.commit({ dropped: [block.blockId], blocks: [same] });
      await model.check();
      await assert.rejects(
        service.commit('faces', model.change({ dropped: [model.samples.id()] })),
        fails('NOT_FOUND'),
      );
      await model.check();
    });

    test("what was staged is the store's own: the memory that it came in may be used again", async (service) => {
      const model = await Model.create(service);
      const kept = model.samples.records(50);
      const given = kept.map(({ handle, sealed }) => ({ handle: handle.slice(), sealed: sealed.slice() }));
      const block = model.samples.block();
      const encoded = new Uint8Array(encodeBlock(block));
      const list = model.samples.bytes(500);
      const givenList = list.slice();
      const records = [await service.stageRecords('faces', given)];
      const blocks = [await service.stageBlock('faces', [encoded])];
      const lists = [await service.stageList('faces', givenList)];
      freeBytes(encoded, givenList, ...given.flatMap(({ handle, sealed }) => [handle, sealed]));
      assert.equal(encoded.length + givenList.length + given[0].sealed.length, 0);
      await model.commit({ records, blocks, lists });
      for (const record of kept) model.records.set(hex(record.handle), record);
      model.blocks.set(hex(block.blockId), block);
      model.lists.set(hex(listId(list)), list);
      await model.check();
    });

    test('a change based on another version is STALE, and what it staged serves the next attempt', async (service) => {
      const model = await Model.create(service);
      await model.fill();
      const record = model.samples.record();
      const stage = await service.stageRecords('faces', [record]);
      for (const expected of [model.version - 1, model.version + 1, 0])
        await assert.rejects(
          service.commit('faces', { ...model.change({ records: [stage] }), expected }),
          fails('STALE'),
        );
      await model.check();
      await model.commit({ records: [stage] });
      model.records.set(hex(record.handle), record);
      await model.check();
      await assert.rejects(service.commit('faces', model.change({ records: [stage] })), fails('NOT_FOUND'));
    });

    test('committing the current manifest again succeeds and changes nothing', async (service) => {
      const model = await Model.create(service);
      const record = model.samples.record();
      const change = model.change({ records: [await service.stageRecords('faces', [record])] });
      assert.equal(await service.commit('faces', change), 2);
      assert.equal(await service.commit('faces', change), 2);
      model.version = 2;
      model.manifest = change.manifest;
      model.records.set(hex(record.handle), record);
      await model.check();
      await model.commit();
      await assert.rejects(service.commit('faces', change), fails('STALE'));
      await model.check();
    });

    test('a change that fails changes nothing', async (service) => {
      const model = await Model.create(service);
      await model.fill();
      const other = await Model.create(service, 'other', 9);
      const foreign = await service.stageList('other', text('foreign'));
      const records = [await service.stageRecords('faces', model.samples.records(3))];
      const lists = [await service.stageList('faces', text('list'))];
      const [block] = model.blocks.values();
      const good = { records, lists, dropped: [block.blockId] };
      const wrong: [Partial<Change>, ErrorCode][] = [
        [{ ...good, blocks: ['nothing'] }, 'NOT_FOUND'],
        [{ ...good, lists: [...lists, foreign] }, 'NOT_FOUND'],
        [{ ...good, blocks: lists, lists: [] }, 'INVALID_ARGUMENT'],
        [{ ...good, lists: [...lists, ...lists] }, 'INVALID_ARGUMENT'],
        [{ ...good, dropped: [model.samples.id()] }, 'NOT_FOUND'],
        [{ ...good, removed: [new Uint8Array(3)] }, 'INVALID_ARGUMENT'],
        [{ ...good, droppedLists: [new Uint8Array(32)] }, 'NOT_FOUND'],
      ];
      for (const [change, code] of wrong)
        await assert.rejects(service.commit('faces', model.change(change)), fails(code));
      await model.check();
      await other.check();
      await model.commit(good);
      model.blocks.delete(hex(block.blockId));
      assert.equal((await service.getCollection('faces')).records, model.records.size + 3);
    });

    test('writers that race lose nothing and repeat nothing', async (service) => {
      const model = await Model.create(service);
      const writer = async (seed: number) => {
        const samples = new Samples(seed);
        const written: SealedRecord[] = [];
        for (let i = 0; i < 8; i++) {
          const record = samples.record();
          const stage = await service.stageRecords('faces', [record]);
          for (let done = false; !done; ) {
            const { version: expected } = await service.getManifest('faces');
            const manifest = text(`writer ${seed}, ${i}, on ${expected}`);
            try {
              await service.commit('faces', { expected, manifest, records: [stage] });
              done = true;
            } catch (error) {
              if (!fails('STALE')(error)) throw error;
            }
          }
          written.push(record);
        }
        return written;
      };
      const all = (await Promise.all([writer(11), writer(12), writer(13)])).flat();
      const { version, records } = await service.getCollection('faces');
      assert.deepEqual({ version, records }, { version: 25, records: 24 });
      const found = await Array.fromAsync(
        service.getRecords(
          'faces',
          all.map((record) => record.handle),
        ),
      );
      assert.deepEqual(found.map(flat), all.map(flat));
      for (const { handle, sealed } of all) model.records.set(hex(handle), { handle, sealed });
      ({ version: model.version, manifest: model.manifest } = await service.getManifest('faces'));
      await model.check();
    });

    test('a search answers for every block of each query, exactly as the scheme does', async (service, {
      keepsStages,
    }) => {
      const model = await Model.create(service);
      const { samples } = model;
      const query = () => samples.query();
      assert.deepEqual(await Array.fromAsync(model.search([query()])), []);
      await model.fill();
      const blocks = [...model.blocks.values()];
      const ours = blocks.filter((block) => block.keyId[0] === 1);
      const other = samples.query({ set: 'insecure_n_64_logq_30_30_wide_4', keyId: new Uint8Array(16).fill(2) });
      await model.checkSearch(query());
      await model.checkSearch(query(), query(), other);
      await model.checkSearch(samples.query({ keyId: samples.id() }));
      await model.checkSearch();
      for (const only of [ours.slice(0, 1), ours, blocks.filter((block) => block.keyId[0] === 2), []]) {
        const queries = [query(), other];
        assert.deepEqual(
          sorted(await Array.fromAsync(model.search(queries, only))),
          sorted(expectedResponses(only, queries)),
        );
      }
      await assert.rejects(drain(model.search([query()], [samples.block()])), fails('NOT_FOUND'));
      await assert.rejects(drain(model.search([samples.query({ width: 4 })])), fails('BLOCK_MISMATCH'));
      const bad = Uint8Array.from(encodeQuery(query()), (byte, i) => (i === 200 ? byte ^ 1 : byte));
      await assert.rejects(
        drain(service.search('faces', { version: model.version, queries: [bad] })),
        fails('DAMAGED', 'MALFORMED'),
      );
      const at = (version: number, asked: Query) =>
        Array.fromAsync(service.search('faces', { version, queries: [encodeQuery(asked)] }));
      await assert.rejects(at(model.version + 1, query()), fails('STALE'));
      const asked = query();
      const earlier = at(model.version - 1, asked);
      // The last change moved no block.
      if (keepsStages) assert.deepEqual(sorted(await earlier), sorted(expectedResponses(blocks, [asked])));
      else await assert.rejects(earlier, fails('STALE'));
    });

    test('open queries are expanded, and responses packed, exactly as the scheme does', async (service, { reopen }) => {
      const model = await Model.create(service);
      const open = new OpenSamples();
      await model.addLists(...open.pieces);
      const blocks = Array.from({ length: 11 }, (_, i) => open.block(1 + 7 * i));
      await model.addBlocks(...blocks, model.samples.block());
      const evaluation = open.pieces.map(listId);
      const searchOf = (lists: readonly Uint8Array[]) => ({ open: { evaluation: lists, devices: [], inbox: [] } });
      const search = (queries: readonly Uint8Array[], rest: object = {}) =>
        service.search('faces', { version: model.version, queries, ...searchOf(evaluation), ...rest });
      const checkAnswer = async (queries: readonly Uint8Array[], wanted: readonly Block[], rest: object = {}) => {
        const answered: string[] = [];
        for await (const response of search(queries, rest)) {
          const { queryId, blocks: named } = peekAnyResponse(response);
          const asked = queries.find((query) => hex(peekQuery(query).queryId) === hex(queryId))!;
          assert.equal(hex(response), hex(open.expected(asked, model.blocks, response)));
          for (const { blockId } of named) answered.push(`${hex(queryId)} ${hex(blockId)}`);
        }
        const expected = queries.flatMap((query) =>
          wanted.map(({ blockId }) => `${hex(peekQuery(query).queryId)} ${hex(blockId)}`),
        );
        assert.deepEqual(answered.sort(), expected.sort());
      };
      await checkAnswer([open.query()], blocks);
      await checkAnswer([], []);
      // More than are expanded at once.
      await checkAnswer(
        Array.from({ length: 9 }, () => open.query()),
        blocks,
      );
      const some = blocks.slice(2, 5);
      await checkAnswer([open.query()], some, { blocks: some.map((block) => block.blockId) });
      if (reopen) service = model.service = await reopen();
      await service.purge('faces');
      await checkAnswer([open.query()], blocks);

      const [first, ...others] = evaluation;
      const refused = (rest: object, ...codes: [ErrorCode, ...ErrorCode[]]) =>
        assert.rejects(drain(search([open.query()], rest)), fails(...codes));
      await refused({ open: undefined }, 'MALFORMED');
      await refused(searchOf([]), 'INVALID_ARGUMENT');
      await refused(searchOf(others), 'KEY_MISMATCH');
      await refused(searchOf([...evaluation, listId(text('another'))]), 'NOT_FOUND');
      await refused(searchOf([first, first]), 'INVALID_ARGUMENT');
      await refused(searchOf([first.subarray(1)]), 'INVALID_ARGUMENT', 'MALFORMED');
      const other = new OpenSamples();
      await model.addLists(...other.pieces, text('no evaluation key'));
      await refused(searchOf(other.pieces.map(listId)), 'KEY_MISMATCH');
      await refused(searchOf([listId(text('no evaluation key'))]), 'MALFORMED');
      // Those of two keys, as while one is rotated.
      await checkAnswer([open.query()], blocks, searchOf([...evaluation, ...other.pieces.map(listId)]));
      const bad = Uint8Array.from(open.query(), (byte, i) => (i === 90 ? byte ^ 1 : byte));
      await assert.rejects(drain(search([bad])), fails('DAMAGED', 'MALFORMED'));
      const plain = model.samples.query({
        ...{ set: open.plan.parameters.name, width: open.plan.width, keyId: open.key.keyId },
      });
      await assert.rejects(drain(search([encodeQuery(plain)])), fails('MALFORMED'));
      const whole = service.search('faces', { version: model.version, queries: [encodeQuery(plain)] });
      await assert.rejects(drain(whole), fails('BLOCK_MISMATCH'));
      await model.commit({ droppedLists: [first] });
      model.lists.delete(hex(first));
      await refused({}, 'NOT_FOUND');
    });

    test('many blocks are searched and read alike, however the store arranges them', async (service, { reopen }) => {
      const model = await Model.create(service);
      const { samples } = model;
      for (let i = 0; i < 10; i++)
        await model.addBlocks(...Array.from({ length: 15 }, () => samples.block({ width: 2 })));
      const query = () => samples.query({ width: 2 });
      await model.checkSearch(query(), query());
      await model.dropBlocks(...[...model.blocks.values()].filter((_, i) => i % 7 === 0));
      await model.checkSearch(query());
      await service.purge('faces');
      await model.checkSearch(query());
      for (const block of model.blocks.values())
        assert.equal(hex(await joined(service.getBlock('faces', block.blockId))), hex(encodeBlock(block)));
      if (!reopen) return;
      model.service = await reopen();
      await model.checkSearch(query());
    });

    test('streams end early, and with the reason of the signal', async (service) => {
      const model = await Model.create(service);
      await model.addBlocks(...Array.from({ length: 20 }, () => model.samples.block()));
      await model.addRecords(model.samples.records(2000));
      const handles = [...model.records.values()].map((record) => record.handle);
      const reason = new Error('changed my mind');
      const streams: ((options: { signal?: AbortSignal }) => AsyncIterable<unknown>)[] = [
        (options) => model.search([model.samples.query()], undefined, options),
        (options) => service.getRecords('faces', handles, options),
        (options) => service.snapshot('faces', options),
      ];
      for (const stream of streams) {
        for await (const _ of stream({})) break;
        await assert.rejects(drain(stream({ signal: AbortSignal.abort(reason) })), (error) => error === reason);
        const controller = new AbortController();
        await assert.rejects(
          async () => {
            for await (const _ of stream({ signal: controller.signal })) controller.abort(reason);
          },
          (error) => error === reason,
        );
      }
      await assert.rejects(service.purge('faces', { signal: AbortSignal.abort(reason) }), (error) => error === reason);
      await model.checkSearch(model.samples.query());
    });

    test('staging takes what comes no faster than it can, and stops when told', async (service) => {
      const model = await Model.create(service);
      let taken = 0;
      let ended = false;
      const reason = new Error('enough');
      const controller = new AbortController();
      async function* endless(): AsyncGenerator<SealedRecord> {
        try {
          for (;;) {
            if (++taken === 500) controller.abort(reason);
            yield model.samples.record(10_000);
          }
        } finally {
          ended = true;
        }
      }
      const { signal } = controller;
      await assert.rejects(service.stageRecords('faces', endless(), { signal }), (error) => error === reason);
      assert.ok(ended && taken < 1000);
      const failing = async function* () {
        yield model.samples.record();
        throw reason;
      };
      await assert.rejects(service.stageRecords('faces', failing()), (error) => error === reason);
      await assert.rejects(
        service.stageRecords('faces', [{ handle: new Uint8Array(3), sealed: text('x') }]),
        fails('INVALID_ARGUMENT'),
      );
      const encoded = encodeBlock(model.samples.block());
      const aborted = { signal: AbortSignal.abort(reason) };
      await assert.rejects(service.stageBlock('faces', [encoded], aborted), (error) => error === reason);
      await model.fill();
      await model.check();
    });

    test('a search goes on with what it began with while the collection changes', async (service) => {
      const model = await Model.create(service);
      const { samples } = model;
      await model.addBlocks(...Array.from({ length: 40 }, () => samples.block()));
      const query = samples.query();
      const expected = sorted(expectedResponses(model.blocks.values(), [query]));
      const searches = await Promise.all(
        Array.from({ length: 3 }, async () => {
          const responses = model.search([query])[Symbol.asyncIterator]();
          return { responses, found: [(await responses.next()).value as Uint8Array] };
        }),
      );
      await model.dropBlocks(...[...model.blocks.values()].slice(0, 30));
      await model.addBlocks(...Array.from({ length: 40 }, () => samples.block()));
      await service.purge('faces');
      for (const { responses, found } of searches) {
        for (let next = await responses.next(); !next.done; next = await responses.next()) found.push(next.value);
        assert.deepEqual(sorted(found), expected);
      }
      await model.checkSearch(query);
    });

    test('searches and commits side by side each see one version', async (service) => {
      const model = await Model.create(service);
      const { samples } = model;
      await model.addBlocks(samples.block());
      const states = new Map([[model.version, [...model.blocks.values()]]]);
      const query = samples.query();
      let writing = true;
      const searcher = async () => {
        let answered = 0;
        while (writing || answered === 0) {
          const { version } = await service.getManifest('faces');
          const request = { version, queries: [encodeQuery(query)] };
          try {
            const found = sorted(await Array.fromAsync(service.search('faces', request)));
            assert.deepEqual(found, sorted(expectedResponses(states.get(version)!, [query])));
            answered++;
          } catch (error) {
            if (!fails('STALE')(error)) throw error;
          }
        }
      };
      const writer = async () => {
        for (let i = 0; i < 12; i++) {
          const block = samples.block();
          const [oldest] = model.blocks.values();
          const stage = await service.stageBlock('faces', [encodeBlock(block)]);
          const dropped = i % 3 === 0 ? [oldest.blockId] : [];
          for (const id of dropped) model.blocks.delete(hex(id));
          model.blocks.set(hex(block.blockId), block);
          states.set(model.version + 1, [...model.blocks.values()]);
          await model.commit({ blocks: [stage], dropped });
        }
        writing = false;
      };
      await Promise.all([writer(), searcher(), searcher()]);
      await model.checkSearch(query);
    });

    test('a purge changes nothing that can be seen', async (service, { reopen }) => {
      const model = await Model.create(service);
      for (let i = 0; i < 3; i++) {
        await model.fill();
        const [block] = model.blocks.values();
        await model.dropBlocks(block);
        const [list] = model.lists.values();
        await model.commit({ droppedLists: [listId(list)] });
        model.lists.delete(hex(listId(list)));
        const record = model.samples.record();
        const stage = await service.stageRecords('faces', [record]);
        await service.purge('faces');
        await model.check();
        // Staged before, committed after.
        await model.commit({ records: [stage] });
        model.records.set(hex(record.handle), record);
        await model.check();
      }
      await service.purge('faces');
      await service.purge('faces');
      await model.check();
      if (reopen) model.service = await reopen();
      await model.check();
    });

    test('everything can be read while a purge runs', async (service) => {
      const model = await Model.create(service);
      const { samples } = model;
      for (let i = 0; i < 3; i++) {
        await model.fill();
        await model.addBlocks(...Array.from({ length: 30 }, () => samples.block()));
        await model.dropBlocks(...[...model.blocks.values()].filter((_, k) => k % 5 === i));
        const [gone] = model.records.values();
        await model.commit({ removed: [gone.handle] });
        model.records.delete(hex(gone.handle));
        let running = true;
        const purging = service.purge('faces').finally(() => {
          running = false;
        });
        const read = async () => {
          do await model.check();
          while (running);
        };
        await Promise.all([purging, read(), read()]);
      }
    });

    test('a snapshot is restored under this name or another', async (service) => {
      const model = await Model.create(service);
      await model.fill();
      const snapshot = await joined(service.snapshot('faces'));
      await service.restore('copy', pieces(snapshot, 10_007));
      await model.check('copy');
      const [before, after] = [await service.getCollection('faces'), await service.getCollection('copy')];
      assert.equal(hex(after.id), hex(before.id));
      assert.equal(hex(after.descriptor), hex(before.descriptor));
      await assert.rejects(service.restore('faces', [snapshot]), fails('ALREADY_EXISTS'));
      await assert.rejects(service.restore('../x', [snapshot]), fails('INVALID_ARGUMENT'));
      await service.deleteCollection('faces');
      await service.restore('faces', [snapshot]);
      await model.check();
      await model.fill();
      await model.check();
      assert.notEqual((await service.getCollection('copy')).version, model.version);
    });

    test('a snapshot that is cut off or altered restores nothing', async (service) => {
      const model = await Model.create(service);
      await model.fill();
      const snapshot = await joined(service.snapshot('faces'));
      const attempts: Uint8Array[] = [];
      for (let i = 0; i < 12; i++) {
        const at = i < 2 ? snapshot.length - 1 - 3 * i : model.samples.below(snapshot.length);
        attempts.push(snapshot.subarray(0, at));
        attempts.push(Uint8Array.from(snapshot, (byte, k) => (k === at ? byte ^ 0x10 : byte)));
      }
      attempts.push(Buffer.concat([snapshot, Uint8Array.of(0, 0, 0, 0)]), Buffer.concat([snapshot, snapshot]));
      for (const attempt of attempts) {
        await assert.rejects(service.restore('copy', [attempt]), fails('MALFORMED', 'DAMAGED', 'UNSUPPORTED_VERSION'));
        assert.deepEqual(
          (await service.listCollections()).map((info) => info.name),
          ['faces'],
        );
      }
      const reason = new Error('broken line');
      const breaking = async function* () {
        yield snapshot.subarray(0, snapshot.length >> 1);
        throw reason;
      };
      await assert.rejects(service.restore('copy', breaking()), (error) => error === reason);
      await service.restore('copy', [snapshot]);
      await model.check('copy');
      await model.check();
    });

    test('a snapshot is of one moment while the collection changes', async (service) => {
      const model = await Model.create(service);
      await model.fill();
      // More than a stream can hold back.
      await model.addRecords(Array.from({ length: 3000 }, () => model.samples.record(1500)));
      const blocks = [...model.blocks.values()];
      const stream = service.snapshot('faces')[Symbol.asyncIterator]();
      const taken = [(await stream.next()).value as Uint8Array];
      const restored = await Model.create(service, 'unused', 5);
      restored.version = model.version;
      restored.manifest = model.manifest;
      for (const key of ['records', 'lists', 'blocks'] as const)
        for (const [id, value] of model[key]) (restored[key] as Map<string, unknown>).set(id, value);
      await model.dropBlocks(...blocks);
      await model.commit({ removed: [...model.records.values()].map((record) => record.handle) });
      model.records.clear();
      await model.addRecords(model.samples.records(10));
      await model.check();
      const purging = service.purge('faces'); // may wait for the snapshot, and must not spoil it
      await new Promise((resolve) => setTimeout(resolve, 30));
      for (let next = await stream.next(); !next.done; next = await stream.next()) taken.push(next.value);
      await purging;
      await service.restore('copy', taken);
      await restored.check('copy');
      await model.check();
    });

    test('snapshots that overlap are each of one moment', async (service) => {
      const model = await Model.create(service);
      const large = () => Array.from({ length: 1500 }, () => model.samples.record(1500));
      await model.addRecords(large());
      const first = service.snapshot('faces')[Symbol.asyncIterator]();
      const early = [(await first.next()).value as Uint8Array];
      await model.addRecords(large());
      const late = Array.fromAsync(service.snapshot('faces'));
      await model.addRecords(large());
      for (let next = await first.next(); !next.done; next = await first.next()) early.push(next.value);
      await service.restore('early', early);
      await service.restore('late', await late);
      const [one, two] = [await service.getCollection('early'), await service.getCollection('late')];
      assert.deepEqual([one.version, one.records], [2, 1500]);
      // The second began before the last change or, having waited for the first, after it.
      assert.ok((two.version === 3 && two.records === 3000) || (two.version === 4 && two.records === 4500));
      await model.check();
    });

    test('collections do not mix', async (service) => {
      const one = await Model.create(service, 'one', 1);
      const two = await Model.create(service, 'two', 1); // the same handles, lists and block ids
      await one.fill();
      await two.fill();
      await two.addRecords(two.samples.records(5));
      await one.check();
      await two.check();
      await service.deleteCollection('one');
      await service.purge('two');
      await two.check();
    });

    test('whoever is held to partitions sees, searches and changes those alone', async (service, { heldTo }) => {
      const { model, ours, theirs } = await partitioned(service);
      const held = await heldTo(model.name, new Set([hex(ours.handle)]));
      try {
        // Reading.
        const { manifest } = await held.getManifest('faces');
        const shown = decodeSections(manifest)!.sections;
        assert.deepEqual(
          shown.map(({ handle, sealed }) => [hex(handle), sealed && hex(sealed)]),
          [
            [hex(ours.handle), hex(ours.section.sealed!)],
            [hex(theirs.handle), undefined],
          ],
        );
        assert.deepEqual(
          (await Array.fromAsync(held.getRecords('faces', [ours.record.handle]))).map(({ sealed }) => hex(sealed)),
          [hex(ours.record.sealed)],
        );
        await assert.rejects(drain(held.getRecords('faces', [theirs.record.handle])), fails('NOT_FOUND'));
        // Whether records or lists are of others, or not there, looks the same: nothing comes
        // first.
        const gone = [model.samples.record().handle, listId(text('gone'))];
        const refusals = await Promise.all(
          [
            ...[theirs.record.handle, gone[0]].map((id) => held.getRecords('faces', [ours.record.handle, id])),
            held.getRecords('faces', [theirs.record.handle, gone[0]]),
            ...[listId(theirs.list), gone[1]].map((id) => held.getLists('faces', [listId(ours.list), id])),
          ].map(async (answer) => {
            let came = 0;
            try {
              for await (const _ of answer) came++;
            } catch (error) {
              assert.ok(fails('NOT_FOUND')(error));
              return `${came} ${(error as Error).message}`;
            }
            throw new Error('it was answered');
          }),
        );
        assert.equal(new Set(refusals.slice(0, 3)).size, 1, refusals.join('; '));
        assert.equal(new Set(refusals.slice(3)).size, 1, refusals.join('; '));
        const shared = listId(concat(SHARED, text('for all')));
        assert.equal((await Array.fromAsync(held.getLists('faces', [listId(ours.list), shared]))).length, 2);
        await assert.rejects(drain(held.getLists('faces', [listId(theirs.list)])), fails('NOT_FOUND'));
        assert.equal(hex(await joined(held.getBlock('faces', ours.block.blockId))), hex(encodeBlock(ours.block)));
        await assert.rejects(joined(held.getBlock('faces', theirs.block.blockId)), fails('NOT_FOUND'));
        // Whether something is of others, or not there, looks the same.
        const messages = await Promise.all(
          [theirs.block.blockId, model.samples.id()].map((id) =>
            joined(held.getBlock('faces', id)).catch((error) => error.message.replace(hex(id), '')),
          ),
        );
        assert.equal(messages[0], messages[1]);

        // Searching.
        const query = model.samples.query();
        const ask = (blocks?: Block[]) =>
          Array.fromAsync(
            held.search('faces', {
              version: model.version,
              queries: [encodeQuery(query)],
              ...(blocks ? { blocks: blocks.map(({ blockId }) => blockId) } : {}),
            }),
          );
        assert.deepEqual(sorted(await ask([ours.block])), sorted(expectedResponses([ours.block], [query])));
        await assert.rejects(ask(), fails('FORBIDDEN'));
        await assert.rejects(ask([theirs.block]), fails('NOT_FOUND'));
        await assert.rejects(ask([ours.block, theirs.block]), fails('NOT_FOUND'));

        // Staging.
        const { samples } = model;
        await assert.rejects(held.stageRecords('faces', [theirs.made()]), fails('FORBIDDEN'));
        await assert.rejects(held.stageRecords('faces', [ours.made(), theirs.made()]), fails('FORBIDDEN'));
        await assert.rejects(held.stageRecords('faces', [{ ...samples.record(3) }]), fails('FORBIDDEN'));
        for (const handle of [theirs.handle, SHARED])
          await assert.rejects(held.stageList('faces', concat(handle, text('x'))), fails('FORBIDDEN'));
        await assert.rejects(held.stageBlock('faces', [encodeBlock(samples.block())]), fails('FORBIDDEN'));

        // Whoever is held to nothing loses no section by passing on what was shown to somebody
        // else.
        const passedOn = { expected: model.version, manifest };
        await assert.rejects(service.commit('faces', passedOn), fails('MALFORMED'));
        const id = samples.id();
        await assert.rejects(
          service.createCollection('others', { id, descriptor: text('d'), manifest }),
          fails('MALFORMED'),
        );

        // Changing: nothing of others, by whatever name.
        const change = (rest: Partial<Change>, sections = [ours.sectionOf('new'), theirs.named()]): Change => ({
          expected: model.version,
          manifest: encodeSections({ sections, rest: text(`rest ${hex(samples.id())}`) }),
          ...rest,
        });
        const refused: [Partial<Change>, Section[]?][] = [
          [{ removed: [theirs.record.handle] }],
          [{ dropped: [theirs.block.blockId] }],
          [{ droppedLists: [listId(theirs.list)] }],
          [{ droppedLists: [shared] }],
          [{ records: [await held.stageRecords('faces', [ours.made(theirs.record.handle)])] }],
          // What somebody else has staged, even if it would be allowed.
          [{ records: [await service.stageRecords('faces', [ours.made()])] }],
          [{ lists: [await service.stageList('faces', concat(theirs.handle, text('x')))] }],
          [{ blocks: [await service.stageBlock('faces', [encodeBlock(theirs.blockOf())])] }],
          [{}, [ours.sectionOf('new')]],
          [{}, [ours.sectionOf('new'), theirs.sectionOf('other')]],
          [{}, [ours.sectionOf('new'), theirs.named(), { ...theirs.named(), handle: samples.bytes(8) }]],
          [{}, [ours.sectionOf('new'), theirs.named(), theirs.named()]],
          [{}, [ours.named(), theirs.named()]],
        ];
        for (const [i, [rest, sections]] of refused.entries())
          await assert.rejects(
            held.commit('faces', change(rest, sections)),
            fails('FORBIDDEN', 'NOT_FOUND', 'MALFORMED'),
            `change ${i}`,
          );
        await assert.rejects(
          held.commit('faces', { expected: model.version, manifest: text('no sections') }),
          fails('FORBIDDEN'),
        );
        for (const call of [
          () => held.purge('faces'),
          () => drain(held.snapshot('faces')),
          () => held.restore('other', []),
        ])
          await assert.rejects(call, fails('FORBIDDEN'));
        await model.check();

        // Changing what is its own, and again when the acknowledgement was lost.
        const record = ours.made(ours.record.handle);
        const block = ours.blockOf();
        const list = concat(ours.handle, text('another'));
        const good = change({
          records: [await held.stageRecords('faces', [record, ours.made()])],
          lists: [await held.stageList('faces', list)],
          droppedLists: [listId(ours.list)],
          blocks: [await held.stageBlock('faces', [encodeBlock(block)])],
          dropped: [ours.block.blockId],
        });
        assert.equal(await held.commit('faces', good), model.version + 1);
        assert.equal(await held.commit('faces', good), model.version + 1);
        const now = decodeSections((await service.getManifest('faces')).manifest)!;
        assert.deepEqual(
          now.sections.map(({ sealed }) => hex(sealed!)),
          [hex(ours.sectionOf('new').sealed!), hex(theirs.section.sealed!)],
        );
        assert.equal((await Array.fromAsync(service.getRecords('faces', [theirs.record.handle]))).length, 1);
        assert.deepEqual(
          (await Array.fromAsync(service.getRecords('faces', [record.handle]))).map(({ sealed }) => hex(sealed)),
          [hex(record.sealed)],
        );
        await assert.rejects(held.commit('faces', change({})), fails('STALE'));
      } finally {
        await held.close();
      }
    });

    test('an inbox keeps what devices post, in order, until it is dropped', async (service, { reopen }) => {
      const model = await Model.create(service);
      const { samples } = model;
      const { id } = await service.getCollection('faces');
      const envelope = (about: Partial<EnvelopeHead> = {}, body = samples.bytes(60)) =>
        sampleEnvelope({ collection: id, nonce: samples.id(), body, ...about });
      const flat = async (from: Service, range?: InboxRange) =>
        (await Array.fromAsync(from.takeInbox('faces', range))).map((item) => [item.number, hex(item.envelope)]);
      assert.deepEqual(await flat(service), []);
      await service.dropInbox('faces', [1, 2]);
      const posted = Array.from({ length: 25 }, (_, i) => envelope({ device: i % 3 }));
      for (const [i, each] of posted.entries()) assert.equal(await service.post('faces', each), i + 1);
      // A retry whose first answer was lost.
      assert.equal(await service.post('faces', posted[4]!), 5);
      const before = Date.now();
      const all = posted.map((each, i) => [i + 1, hex(each)]);
      assert.deepEqual(await flat(service), all);
      assert.deepEqual(await flat(service, { after: 3, limit: 20 }), all.slice(3, 23));
      for await (const { posted: came } of service.takeInbox('faces'))
        assert.ok(came <= before && came > before - 60_000);
      await service.dropInbox('faces', [2, 25, 999]);
      let now = reopen ? await reopen() : service;
      const left = all.filter(([number]) => number !== 2 && number !== 25);
      assert.deepEqual(await flat(now), left);
      // The number of an item that was dropped is not given again.
      assert.equal(await now.post('faces', posted[24]!), 26);
      await now.dropInbox('faces', [26]);

      await now.refuseDevices('faces', [2, 7]);
      await assert.rejects(now.post('faces', envelope({ device: 2 })), fails('FORBIDDEN'));
      now = reopen ? await reopen() : now;
      await assert.rejects(now.post('faces', envelope({ device: 2 })), fails('FORBIDDEN'));
      await now.refuseDevices('faces', [7]);
      assert.equal(await now.post('faces', envelope({ device: 2 })), 27);
      await now.dropInbox('faces', [27]);

      const wrong: [ErrorCode, Uint8Array][] = [
        ['MALFORMED', new Uint8Array(0)],
        ['MALFORMED', samples.bytes(500)],
        ['MALFORMED', envelope().subarray(0, 100)],
        ['MALFORMED', envelope().with(100, 1).with(101, 255)],
        ['UNSUPPORTED_VERSION', envelope().with(8, 9)],
        ['KEY_MISMATCH', envelope({ collection: samples.id() })],
        ['WRONG_CLOCK', envelope({ time: Date.now() + 3_600_000 })],
        ['WRONG_CLOCK', envelope({ time: 0 })],
        ['TOO_LARGE', envelope({}, new Uint8Array(2 ** 20))],
      ];
      for (const [code, bytes] of wrong) await assert.rejects(now.post('faces', bytes), fails(code), code);
      await assert.rejects(now.post('nobody', envelope()), fails('NOT_FOUND'));
      for (const range of [{ after: -1 }, { limit: 0 }, { limit: 1001 }])
        await assert.rejects(drain(now.takeInbox('faces', range)), fails('INVALID_ARGUMENT'));
      await assert.rejects(now.dropInbox('faces', [-1]), fails('INVALID_ARGUMENT'));
      assert.deepEqual(await flat(now), left);

      // It is part of no snapshot.
      await now.restore('copy', now.snapshot('faces'));
      assert.deepEqual(await Array.fromAsync(now.takeInbox('copy')), []);
      await now.purge('faces');
      assert.deepEqual(await flat(now), left);
      await now.deleteCollection('faces');
      await assert.rejects(drain(now.takeInbox('faces')), fails('NOT_FOUND'));
    });

    test('a question in the inbox is searched for by its number', async (service) => {
      const model = await Model.create(service);
      await model.fill();
      const open = new OpenSamples();
      await model.addLists(...open.pieces);
      await model.addBlocks(open.block());
      const { id } = await service.getCollection('faces');
      const [query, body] = [open.query(), open.query()];
      const nonce = () => model.samples.id();
      const number = await service.post('faces', sampleEnvelope({ collection: id, nonce: nonce(), body }));
      const enrolment = { collection: id, nonce: nonce(), body, kind: 'enrolment' } as const;
      const other = await service.post('faces', sampleEnvelope(enrolment));
      const { version } = await service.getManifest('faces');
      const search = (queries: readonly Uint8Array[], inbox: readonly number[]) =>
        service.search('faces', { version, queries, open: { ...about, inbox } });
      const about = { evaluation: open.pieces.map(listId), devices: [] };
      const answers = await Array.fromAsync(search([query], [number]));
      const asked = [query, body].map((each) => hex(peekQuery(each).queryId));
      assert.deepEqual(answers.map((response) => hex(peekAnyResponse(response).queryId)).sort(), asked.sort());
      for (const response of answers) {
        const of = hex(peekAnyResponse(response).queryId) === hex(peekQuery(query).queryId) ? query : body;
        assert.equal(hex(response), hex(open.expected(of, model.blocks, response)));
      }
      for (const none of [other, 77]) await assert.rejects(drain(search([], [none])), fails('NOT_FOUND'));
    });

    test('after close, everything is CLOSED', async (service) => {
      const model = await Model.create(service);
      await model.fill();
      const search = model.search([model.samples.query()])[Symbol.asyncIterator]();
      await search.next();
      await service.close();
      await service.close();
      const calls: (() => Promise<unknown>)[] = [
        () => service.listCollections(),
        () => service.getCollection('faces'),
        () => service.getManifest('faces'),
        () => service.stageRecords('faces', []),
        () => service.stageList('faces', text('x')),
        () => service.stageBlock('faces', []),
        () => service.commit('faces', model.change()),
        () => drain(service.getRecords('faces', [])),
        () => drain(service.search('faces', { version: 1, queries: [] })),
        () => service.post('faces', text('x')),
        () => drain(service.takeInbox('faces')),
        () => service.dropInbox('faces', [1]),
        () => service.refuseDevices('faces', [1]),
        () => service.purge('faces'),
        () => drain(service.snapshot('faces')),
        () => service.restore('x', []),
        () => service.deleteCollection('faces'),
        () => search.next(),
      ];
      for (const call of calls) await assert.rejects(call, fails('CLOSED'));
    });
  });
}

const concat = (...parts: Uint8Array[]) => new Uint8Array(Buffer.concat(parts));

/** One of two partitions, and what it has. */
function partition(samples: Samples, number: number) {
  const handle = new Uint8Array(8).fill(number);
  const blockOf = () => ({ ...samples.block(), blockId: concat(handle, samples.bytes(8)) });
  const sectionOf = (content: string): Section => {
    const sealed = text(`section ${number} ${content}`);
    return { handle, hash: listId(sealed), sealed };
  };
  const made = (named = samples.record().handle): SealedRecord => ({
    handle: named,
    sealed: concat(handle, samples.bytes(30)),
  });
  const section = sectionOf('first');
  const named = (): Section => ({ handle, hash: section.hash });
  const list = concat(handle, text(`list ${number}`));
  return { handle, blockOf, sectionOf, made, section, named, list, record: made(), block: blockOf() };
}

/** A collection with a record, a list and a block in each of two partitions. */
async function partitioned(service: Service) {
  const model = await Model.create(service);
  const [ours, theirs] = [1, 2].map((number) => partition(model.samples, number));
  await model.addRecords([ours.record, theirs.record]);
  await model.addLists(ours.list, theirs.list, concat(SHARED, text('for all')));
  await model.addBlocks(ours.block, theirs.block);
  const manifest = encodeSections({ sections: [ours.section, theirs.section], rest: text('rest') });
  await model.commit({ manifest });
  return { model, ours, theirs };
}

function* pieces(bytes: Uint8Array, length: number): Generator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += length) yield bytes.subarray(at, at + length);
}
