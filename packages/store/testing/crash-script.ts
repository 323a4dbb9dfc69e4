// A series of changes derived from a seed, and the content of a folder after each, for tests that
// interrupt it anywhere.

import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import type { Block, Query } from '@hers/scheme';
import {
  type CallOptions,
  decodeEnvelope,
  decodeSections,
  encodeSections,
  PARTITION_BYTES,
  type SealedRecord,
  type Section,
  type Service,
} from '@hers/service';
import {
  encodeBlock,
  encodeQuery,
  expectedResponses,
  type SampleShape,
  Samples,
  sampleEnvelope,
} from '@hers/service/samples';
import { hex } from '../src/base/bytes.ts';

/** What a collection holds. Immutable: every step makes a new one. */
interface State {
  readonly version: number;
  readonly manifest: Uint8Array;
  readonly records: ReadonlyMap<string, SealedRecord>;
  readonly lists: ReadonlyMap<string, Uint8Array>;
  readonly blocks: ReadonlyMap<string, Block>;
  /** The nonces of what devices have posted, and the number that was given last. */
  readonly inbox: { readonly nonces: readonly string[]; readonly last: number };
}

/** Collections by name. */
export type Expected = ReadonlyMap<string, State>;

/** What a snapshot of it holds: everything but the inbox. */
export const inSnapshot = (state: State): State => ({ ...state, inbox: { nonces: [], last: 0 } });

export interface ScriptStep {
  readonly about: string;
  /** Resolves when the step is acknowledged. */
  run(service: Service): Promise<void>;
  readonly after: Expected;
}

const NAME = 'faces';
const COPY = 'copy';
const PLAIN: SampleShape = { width: 2 };
/** Of another key, of which there is nothing. */
const OTHER: SampleShape = { ...PLAIN, keyId: new Uint8Array(16).fill(2) };

const sha256 = (bytes: Uint8Array) => new Uint8Array(createHash('sha256').update(bytes).digest());
const listId = sha256;

/** Scripts of seeds beyond this have partitions, and every change is held to one of them. */
export const PARTITIONED = 1_000_000;
const HANDLES = [1, 2, 3].map((byte) => new Uint8Array(PARTITION_BYTES).fill(byte));

/** Of a partition, as all that a store keeps of one begins: record, list or id of a block. */
const of = (handle: Uint8Array | undefined, bytes: Uint8Array): Uint8Array =>
  handle ? Uint8Array.from([...handle, ...bytes]) : bytes;
const isOf = (handle: Uint8Array | undefined, bytes: Uint8Array) =>
  handle === undefined || handle.every((byte, i) => bytes[i] === byte);
const heldTo = (handle: Uint8Array | undefined): CallOptions => (handle ? { partitions: new Set([hex(handle)]) } : {});

type Content = Pick<State, 'records' | 'lists' | 'blocks'>;

/** What a section says: the names of all that is of its partition. */
function namesIn(handle: Uint8Array, { records, lists, blocks }: Content): string {
  return JSON.stringify([
    [...records.values()].filter(({ sealed }) => isOf(handle, sealed)).map((record) => hex(record.handle)),
    [...lists].filter(([, list]) => isOf(handle, list)).map(([id]) => id),
    [...blocks.values()].filter(({ blockId }) => isOf(handle, blockId)).map(({ blockId }) => hex(blockId)),
  ]);
}

/**
 * The next manifest of somebody who is held to a partition, and the one that the store makes of it.
 */
function manifestsOf(handle: Uint8Array | undefined, content: Content, rest: Uint8Array) {
  if (!handle) return { given: rest, whole: rest };
  const sections = HANDLES.map((each): Section => {
    const sealed = new TextEncoder().encode(namesIn(each, content));
    return { handle: each, hash: sha256(sealed), sealed };
  });
  const given = sections.map((each) => (each.handle === handle ? each : { handle: each.handle, hash: each.hash }));
  return { given: encodeSections({ sections: given, rest }), whole: encodeSections({ sections, rest }) };
}

export class Script {
  readonly #seed: number;
  readonly #share: number;
  readonly #hasInbox: boolean;
  readonly #steps: ScriptStep[] = [];

  /**
   * With a share below 1, there is less of everything. Without an inbox, it is what it was before
   * there were any.
   */
  constructor(seed: number, share = 1, hasInbox = true) {
    this.#seed = seed;
    this.#share = share;
    this.#hasInbox = hasInbox;
  }

  get hasPartitions(): boolean {
    return this.#seed > PARTITIONED;
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
    const handle = this.hasPartitions ? HANDLES[(index >> 1) % HANDLES.length] : undefined;
    if (!faces) return create(before, samples, handle);
    const add = (records: number, lists: number, blocks: number) =>
      addThings(
        before,
        faces,
        samples,
        { records: Math.ceil(records * this.#share), lists, blocks: Math.ceil(blocks * this.#share) },
        handle,
      );
    switch (index % (this.#hasInbox ? 10 : 9)) {
      case 1:
        return add(120, 3, 30);
      case 2:
        return changeThings(before, faces, samples, handle);
      case 3:
        return add(20, 1, 40);
      case 4:
        return add(60, 1, 50);
      case 5:
        return before.has(COPY) ? deleteCopy(before) : restoreCopy(before, faces);
      case 6:
        return { about: 'purge', after: before, run: (service) => service.purge(NAME) };
      case 7:
        return add(20, 1, 40);
      case 8:
        return changeThings(before, faces, samples, handle);
      case 9:
        return index % 20 === 9 ? postThing(before, faces, samples) : dropThing(before, faces);
      default:
        return before.has(COPY) ? deleteCopy(before) : add(9, 1, 2);
    }
  }
}

function create(before: Expected, samples: Samples, handle: Uint8Array | undefined): ScriptStep {
  const content = { records: new Map(), lists: new Map(), blocks: new Map() };
  const { whole: manifest } = manifestsOf(handle, content, samples.bytes(50));
  const state = { version: 1, manifest, ...content, inbox: { nonces: [], last: 0 } };
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
  handle: Uint8Array | undefined,
): ScriptStep {
  const records = samples.records(counts.records).map((each) => ({ ...each, sealed: of(handle, each.sealed) }));
  const lists = Array.from({ length: counts.lists }, () => of(handle, samples.bytes(200)));
  const blocks = Array.from({ length: counts.blocks }, () => samples.block(PLAIN)).map((block) => ({
    ...block,
    blockId: of(handle, block.blockId).slice(0, block.blockId.length),
  }));
  const content = {
    records: new Map([...state.records, ...records.map((record) => [hex(record.handle), record] as const)]),
    lists: new Map([...state.lists, ...lists.map((list) => [hex(listId(list)), list] as const)]),
    blocks: new Map([...state.blocks, ...blocks.map((block) => [hex(block.blockId), block] as const)]),
  };
  const { given, whole } = manifestsOf(handle, content, samples.bytes(100));
  const held = heldTo(handle);
  return {
    about: 'add',
    async run(service) {
      const change = {
        expected: state.version,
        manifest: given,
        records: [await service.stageRecords(NAME, records, held)],
        lists: await Promise.all(lists.map((list) => service.stageList(NAME, list, held))),
        blocks: await Promise.all(blocks.map((block) => service.stageBlock(NAME, [encodeBlock(block)], held))),
      };
      await service.commit(NAME, change, held);
    },
    after: new Map(before).set(NAME, { ...state, version: state.version + 1, manifest: whole, ...content }),
  };
}

/** Replaces and removes a few of everything. */
function changeThings(before: Expected, state: State, samples: Samples, partition: Uint8Array | undefined): ScriptStep {
  const some = <T>(all: Iterable<T>, share: number) => [...all].filter(() => samples.below(share) === 0);
  const ofPartition = [...state.records.values()].filter(({ sealed }) => isOf(partition, sealed));
  const removed = some(ofPartition, 4);
  const replaced = some(ofPartition, 4)
    .filter((record) => !removed.includes(record))
    .map(({ handle }) => ({ handle, sealed: of(partition, samples.bytes(77)) }));
  const droppedLists = some(
    [...state.lists.values()].filter((list) => isOf(partition, list)),
    3,
  );
  const dropped = some(
    [...state.blocks.values()].filter(({ blockId }) => isOf(partition, blockId)),
    5,
  );
  const rest = samples.bytes(90);
  const records = new Map(state.records);
  for (const { handle } of removed) records.delete(hex(handle));
  for (const record of replaced) records.set(hex(record.handle), record);
  const lists = new Map(state.lists);
  for (const list of droppedLists) lists.delete(hex(listId(list)));
  const blocks = new Map(state.blocks);
  for (const block of dropped) blocks.delete(hex(block.blockId));
  const content = { records, lists, blocks };
  const { given, whole } = manifestsOf(partition, content, rest);
  const held = heldTo(partition);
  return {
    about: 'change',
    async run(service) {
      const change = {
        expected: state.version,
        manifest: given,
        records: [await service.stageRecords(NAME, replaced, held)],
        removed: removed.map(({ handle }) => handle),
        dropped: dropped.map(({ blockId }) => blockId),
        droppedLists: droppedLists.map(listId),
      };
      await service.commit(NAME, change, held);
    },
    after: new Map(before).set(NAME, { ...state, version: state.version + 1, manifest: whole, ...content }),
  };
}

/** Posts twice: an acknowledgement may get lost. */
function postThing(before: Expected, state: State, samples: Samples): ScriptStep {
  const { nonces, last } = state.inbox;
  const [nonce, body] = [samples.id(), samples.bytes(300)];
  return {
    about: 'post',
    async run(service) {
      const { id } = await service.getCollection(NAME);
      for (let i = 0; i < 2; i++)
        assert.equal(await service.post(NAME, sampleEnvelope({ collection: id, nonce, body })), last + 1);
    },
    after: new Map(before).set(NAME, { ...state, inbox: { nonces: [...nonces, hex(nonce)], last: last + 1 } }),
  };
}

/** Drops what came last, whose number is not given again. */
function dropThing(before: Expected, state: State): ScriptStep {
  const { nonces, last } = state.inbox;
  return {
    about: 'drop',
    run: (service) => service.dropInbox(NAME, [last]),
    after: new Map(before).set(NAME, { ...state, inbox: { nonces: nonces.slice(0, -1), last } }),
  };
}

function restoreCopy(before: Expected, state: State): ScriptStep {
  return {
    about: 'restore',
    run: (service) => service.restore(COPY, service.snapshot(NAME)),
    after: new Map([...before, [COPY, inSnapshot(state)]]),
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
  // Every section names what there is of its partition, and nothing else is there.
  const sections = decodeSections(manifest)?.sections ?? [];
  for (const { handle, sealed } of sections)
    assert.equal(new TextDecoder().decode(sealed), namesIn(handle, state), `a section of ${name}`);
  if (sections.length > 0)
    for (const { blockId } of state.blocks.values())
      assert.ok(
        sections.some(({ handle }) => isOf(handle, blockId)),
        `a block of ${name} without a section`,
      );

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

  const inbox = await Array.fromAsync(service.takeInbox(name));
  const nonces = inbox.map(({ envelope }) => hex(decodeEnvelope(envelope).nonce));
  assert.deepEqual(nonces, state.inbox.nonces, `the inbox of ${name}`);

  const samples = new Samples(7);
  const queries: Query[] = [samples.query(PLAIN), samples.query(OTHER)];
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
