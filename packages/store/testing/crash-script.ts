// A series of changes derived from a seed, and the content of a folder after each, for tests that
// interrupt it anywhere.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { addBlocks, type Block, type Query } from '@hers/scheme';
import type { SealedRecord, Service } from '@hers/service';
import { encodeBlock, encodeQuery, expectedResponses, type SampleShape, Samples } from '@hers/service/samples';
import { hex } from '../src/bytes.ts';

/** What a collection holds. Immutable: every step makes a new one. */
interface State {
  readonly version: number;
  readonly manifest: Uint8Array;
  readonly records: ReadonlyMap<string, SealedRecord>;
  readonly lists: ReadonlyMap<string, Uint8Array>;
  readonly blocks: ReadonlyMap<string, Block>;
}

/** Collections by name. */
export type Expected = ReadonlyMap<string, State>;

export interface ScriptStep {
  readonly about: string;
  /** Resolves when the step is acknowledged. */
  run(service: Service): Promise<void>;
  readonly after: Expected;
}

const NAME = 'faces';
const COPY = 'copy';
const PLAIN: SampleShape = { width: 2 };
const SUMMED: SampleShape = { set: 'insecure_n_64_logq_30_30', width: 3, keyId: new Uint8Array(16).fill(2) };

const listId = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest());

export class Script {
  readonly #seed: number;
  readonly #share: number;
  readonly #steps: ScriptStep[] = [];

  /** With a share below 1, there is less of everything. */
  constructor(seed: number, share = 1) {
    this.#seed = seed;
    this.#share = share;
  }

  /** The expected state after this many steps. */
  after(steps: number): Expected {
    return steps === 0 ? new Map() : this.step(steps - 1).after;
  }

  step(index: number): ScriptStep {
    while (this.#steps.length <= index) this.#steps.push(this.#make(this.#steps.length));
    return this.#steps[index];
  }

  #make(index: number): ScriptStep {
    const before = this.after(index);
    const samples = new Samples(this.#seed * 1009 + index);
    const faces = before.get(NAME);
    if (!faces) return create(before, samples);
    const add = (records: number, lists: number, blocks: number) =>
      addThings(before, faces, samples, {
        records: Math.ceil(records * this.#share),
        lists,
        blocks: Math.ceil(blocks * this.#share),
      });
    switch (index % 9) {
      case 1:
        return add(120, 3, 30);
      case 2:
        return changeThings(before, faces, samples);
      case 3:
        return addSum(before, faces, samples);
      case 4:
        return add(60, 1, 50);
      case 5:
        return before.has(COPY) ? deleteCopy(before) : restoreCopy(before, faces);
      case 6:
        return { about: 'purge', after: before, run: (service) => service.purge(NAME) };
      case 7:
        return addSum(before, faces, samples);
      case 8:
        return changeThings(before, faces, samples);
      default:
        return before.has(COPY) ? deleteCopy(before) : add(9, 1, 2);
    }
  }
}

function create(before: Expected, samples: Samples): ScriptStep {
  const manifest = samples.bytes(50);
  const state = { version: 1, manifest, records: new Map(), lists: new Map(), blocks: new Map() };
  const created = { id: samples.id(), descriptor: samples.bytes(20), manifest };
  return {
    about: 'create',
    run: (service) => service.createCollection(NAME, created),
    after: new Map([...before, [NAME, state]]),
  };
}

function addThings(
  before: Expected,
  state: State,
  samples: Samples,
  counts: { records: number; lists: number; blocks: number },
): ScriptStep {
  const records = samples.records(counts.records);
  const lists = Array.from({ length: counts.lists }, () => samples.bytes(200));
  const blocks = Array.from({ length: counts.blocks }, () => samples.block(PLAIN));
  const manifest = samples.bytes(100);
  return {
    about: 'add',
    async run(service) {
      const change = {
        expected: state.version,
        manifest,
        records: [await service.stageRecords(NAME, records)],
        lists: await Promise.all(lists.map((list) => service.stageList(NAME, list))),
        blocks: await Promise.all(blocks.map((block) => service.stageBlock(NAME, [encodeBlock(block)]))),
      };
      await service.commit(NAME, change);
    },
    after: new Map(before).set(NAME, {
      version: state.version + 1,
      manifest,
      records: new Map([...state.records, ...records.map((record) => [hex(record.handle), record] as const)]),
      lists: new Map([...state.lists, ...lists.map((list) => [hex(listId(list)), list] as const)]),
      blocks: new Map([...state.blocks, ...blocks.map((block) => [hex(block.blockId), block] as const)]),
    }),
  };
}

/** Replaces and removes a few of everything. */
function changeThings(before: Expected, state: State, samples: Samples): ScriptStep {
  const some = <T>(all: Iterable<T>, share: number) => [...all].filter(() => samples.below(share) === 0);
  const removed = some(state.records.values(), 4);
  const replaced = some(state.records.values(), 4)
    .filter((record) => !removed.includes(record))
    .map(({ handle }) => ({ handle, sealed: samples.bytes(77) }));
  const droppedLists = some(state.lists.values(), 3);
  const dropped = some(state.blocks.values(), 5);
  const manifest = samples.bytes(90);
  const records = new Map(state.records);
  for (const { handle } of removed) records.delete(hex(handle));
  for (const record of replaced) records.set(hex(record.handle), record);
  const lists = new Map(state.lists);
  for (const list of droppedLists) lists.delete(hex(listId(list)));
  const blocks = new Map(state.blocks);
  for (const block of dropped) blocks.delete(hex(block.blockId));
  return {
    about: 'change',
    async run(service) {
      await service.commit(NAME, {
        expected: state.version,
        manifest,
        records: [await service.stageRecords(NAME, replaced)],
        removed: removed.map(({ handle }) => handle),
        dropped: dropped.map(({ blockId }) => blockId),
        droppedLists: droppedLists.map(listId),
      });
    },
    after: new Map(before).set(NAME, { version: state.version + 1, manifest, records, lists, blocks }),
  };
}

/** Adds to the open block, or begins one. */
function addSum(before: Expected, state: State, samples: Samples): ScriptStep {
  const isOpen = (block: Block) => block.parameters.name === SUMMED.set && block.count < 60;
  const base = [...state.blocks.values()].find(isOpen);
  const part = samples.block({ ...SUMMED, first: base?.count ?? 0, count: 1 + samples.below(3) });
  const result = samples.id();
  const manifest = samples.bytes(80);
  const blocks = new Map(state.blocks);
  if (base) blocks.delete(hex(base.blockId));
  const next = base ? { ...addBlocks(base, part, 1000), blockId: result } : part;
  blocks.set(hex(next.blockId), next);
  return {
    about: 'sum',
    async run(service) {
      const stage = await service.stageBlock(NAME, [encodeBlock(part)]);
      const brings = base
        ? { sums: [{ base: base.blockId, part: stage, result, maxAdditions: 1000 }] }
        : { blocks: [stage] };
      await service.commit(NAME, { expected: state.version, manifest, ...brings });
    },
    after: new Map(before).set(NAME, { ...state, version: state.version + 1, manifest, blocks }),
  };
}

function restoreCopy(before: Expected, state: State): ScriptStep {
  return {
    about: 'restore',
    run: (service) => service.restore(COPY, service.snapshot(NAME)),
    after: new Map([...before, [COPY, state]]),
  };
}

function deleteCopy(before: Expected): ScriptStep {
  return {
    about: 'delete',
    run: (service) => service.deleteCollection(COPY),
    after: new Map([...before].filter(([name]) => name !== COPY)),
  };
}

/** Throws unless the service holds exactly this. */
export async function checkHolds(service: Service, expected: Expected): Promise<void> {
  const infos = await service.listCollections();
  assert.deepEqual(infos.map(({ name }) => name).sort(), [...expected.keys()].sort(), 'the collections');
  for (const [name, state] of expected) await checkCollection(service, name, state);
}

async function checkCollection(service: Service, name: string, state: State): Promise<void> {
  const { version, manifest } = await service.getManifest(name);
  assert.equal(version, state.version, `the version of ${name}`);
  assert.equal(hex(manifest), hex(state.manifest), `the manifest of ${name}`);
  const { records, blocks } = await service.getCollection(name);
  assert.deepEqual({ records, blocks }, { records: state.records.size, blocks: state.blocks.size });

  const wanted = [...state.records.values()];
  const found = await Array.fromAsync(
    service.getRecords(
      name,
      wanted.map(({ handle }) => handle),
    ),
  );
  const flat = ({ handle, sealed }: SealedRecord) => `${hex(handle)} ${hex(sealed)}`;
  assert.deepEqual(found.map(flat), wanted.map(flat), `the records of ${name}`);
  const lists = [...state.lists.values()];
  const foundLists = await Array.fromAsync(service.getLists(name, lists.map(listId)));
  assert.deepEqual(foundLists.map(hex), lists.map(hex), `the lists of ${name}`);
  for (const block of state.blocks.values()) {
    const encoded = Buffer.concat(await Array.fromAsync(service.getBlock(name, block.blockId)));
    assert.equal(hex(encoded), hex(encodeBlock(block)), `a block of ${name}`);
  }

  const samples = new Samples(7);
  const queries: Query[] = [samples.query(PLAIN), samples.query(SUMMED)];
  const responses = await Array.fromAsync(
    service.search(name, { version, queries: queries.map((query) => encodeQuery(query)) }),
  );
  const expected = expectedResponses(state.blocks.values(), queries);
  assert.deepEqual(responses.map(hex).sort(), expected.map(hex).sort(), `a search of ${name}`);
}

/** How many of `done` or `done + 1` steps a service holds; throws when it is neither. */
export async function stepsHeld(service: Service, script: Script, done: number): Promise<number> {
  try {
    await checkHolds(service, script.after(done));
    return done;
  } catch (error) {
    try {
      await checkHolds(service, script.after(done + 1));
      return done + 1;
    } catch {
      throw error;
    }
  }
}
