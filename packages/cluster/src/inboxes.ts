// The inboxes of collections. An inbox is a collection of its own, of one shard and without a name
// that clients could use: its manifest says what is in it (inbox-state.ts), and its records are the
// envelopes. So what is posted goes through the ledger as all changes do: it is on a majority of
// the replicas when it is acknowledged, everybody sees the same numbers, and it is copied and moved
// as other shards are. It is made when something is posted for the first time.

import { setTimeout as pause } from 'node:timers/promises';
import {
  type CallOptions,
  eitherSignal,
  HersError,
  type InboxItem,
  type InboxRange,
  notHeld,
  type PostOptions,
  questionIn,
  type SealedRecord,
  type StageId,
} from '@hers/service';
import {
  checkAllowed,
  checkDevices,
  checkEnvelope,
  checkInboxLimits,
  checkNumbers,
  checkRange,
  type InboxLimits,
  sameDevices,
} from '@hers/store/inbox';
import { checkBytes, isCode } from './arguments.ts';
import type { Collections, Current } from './collections.ts';
import { Committing } from './committing.ts';
import { INBOXES, type PlacedCollection } from './directory.ts';
import { handleOf, type InboxEntry, InboxState } from './inbox-state.ts';
import type { ClusterNode } from './node.ts';
import { Reading } from './reading.ts';
import { HOME, shardName } from './shard.ts';
import { Staging } from './staging.ts';

/** How long a change tries, while others come first. */
const CHANGE_MS = 20_000;
const PAUSE_MS = 20;
/** Posts that become one change: items, and bytes unless one has more. */
const TOGETHER = 256;
const TOGETHER_BYTES = 2 ** 22;
/** Items that are read at a time. */
const PAGE = 16;
/** How often items are looked for again that were dropped while they were read. */
const READS = 10;

/** An envelope that waits for its turn. */
interface Waiting extends Omit<InboxEntry, 'number' | 'posted'> {
  readonly name: string;
  readonly placed: PlacedCollection;
  readonly envelope: Uint8Array;
  readonly resolve: (number: number) => void;
  readonly reject: (error: unknown) => void;
}

interface InboxChange {
  readonly next: InboxState;
  readonly records?: readonly SealedRecord[];
  readonly removed?: readonly InboxEntry[];
}

export class Inboxes {
  readonly #node: ClusterNode;
  /** The collections that have the inboxes. */
  readonly #owners: Collections;
  readonly #ownersReading: Reading;
  readonly #collections: Collections;
  readonly #staging: Staging;
  readonly #committing: Committing;
  readonly #reading: Reading;
  readonly #limits: Required<InboxLimits>;
  /** By collection: what this node changes, one after the other. */
  readonly #turns = new Map<string, Promise<unknown>>();
  readonly #waiting = new Map<string, Waiting[]>();
  /** What was read of manifests: it is the same until one changes. */
  readonly #states = new WeakMap<Uint8Array, InboxState>();
  /** The ids of collections, which never change. */
  readonly #ids = new Map<string, Uint8Array>();

  constructor(node: ClusterNode, owners: Collections, secret: string, limits: InboxLimits | undefined) {
    this.#node = node;
    this.#limits = checkInboxLimits(limits);
    this.#owners = owners;
    this.#ownersReading = new Reading(node, owners);
    this.#collections = owners.inboxes();
    this.#staging = new Staging(node, this.#collections, secret);
    this.#committing = new Committing(node, this.#collections, this.#staging);
    this.#reading = new Reading(node, this.#collections);
  }

  // — posting —

  async post(name: string, bytes: Uint8Array, options?: PostOptions): Promise<number> {
    const placed = await this.#owners.find(name);
    options?.signal?.throwIfAborted();
    const id = await this.#idOf(name, placed);
    checkBytes(bytes, 'an envelope');
    // What comes may be a view of a buffer that is used again.
    const envelope = bytes.slice();
    const { device, nonce } = checkEnvelope(envelope, { id, name }, options);
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    const waiting = this.#waiting.get(placed.uid) ?? [];
    this.#waiting.set(placed.uid, waiting);
    waiting.push({ name, placed, device, nonce, bytes: envelope.length, envelope, resolve, reject });
    // Those that come while a change is made are the next one.
    if (waiting.length === 1) void this.#inTurn(placed.uid, () => this.#postSome(placed.uid));
    return promise;
  }

  async #idOf(name: string, { uid }: PlacedCollection): Promise<Uint8Array> {
    let id = this.#ids.get(uid);
    if (!id) {
      const current = await this.#owners.current(name);
      const home = shardName(current.placed.uid, HOME);
      ({ id } = await this.#ownersReading.from(current, HOME, (service) => service.getCollection(home)));
      this.#ids.set(current.placed.uid, id);
    }
    return id;
  }

  /** One change of an inbox after the other: those of this node never contradict each other. */
  async #inTurn<T>(uid: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.#turns.get(uid) ?? Promise.resolve()).then(work);
    const ended = turn.then(
      () => {},
      () => {},
    );
    this.#turns.set(uid, ended);
    void ended.then(() => {
      if (this.#turns.get(uid) === ended) this.#turns.delete(uid);
    });
    return turn;
  }

  async #postSome(uid: string): Promise<void> {
    const all = this.#waiting.get(uid) ?? [];
    let bytes = 0;
    const fitting = all.findIndex((each, i) => i === TOGETHER || (bytes += each.bytes) > TOGETHER_BYTES);
    const some = all.splice(0, fitting < 0 ? all.length : Math.max(1, fitting));
    if (all.length > 0) void this.#inTurn(uid, () => this.#postSome(uid));
    else this.#waiting.delete(uid);
    const [{ name, placed }] = some;
    let outcomes: (number | { readonly error: unknown })[] = [];
    try {
      await this.#change(name, placed, true, (next) => {
        const now = Date.now();
        const records = new Map<string, SealedRecord>();
        let removed: InboxEntry[] = [];
        outcomes = some.map((each) => {
          const { device, nonce, envelope } = each;
          try {
            checkAllowed(next.refused, device);
            const known = next.find(each);
            if (known) return known.number;
            removed = removed.concat(next.drop(({ posted }) => posted < now - 1000 * this.#limits.age));
            const number = next.put(name, { device, nonce, posted: now, bytes: envelope.length }, this.#limits);
            const handle = handleOf(each);
            records.set(Buffer.from(handle).toString('hex'), { handle, sealed: envelope });
            return number;
          } catch (error) {
            if (!(error instanceof HersError)) throw error;
            return { error };
          }
        });
        return records.size > 0 ? { next, records: [...records.values()], removed } : undefined;
      });
    } catch (error) {
      outcomes = some.map(() => ({ error }));
    }
    for (const [i, { resolve, reject }] of some.entries()) {
      const outcome = outcomes[i];
      if (typeof outcome === 'number') resolve(outcome);
      else reject(outcome.error);
    }
  }

  // — changing —

  /**
   * What is current of an inbox; undefined where there is none. With `make`, it is made then.
   * NOT_FOUND if its collection is no more.
   */
  async #current(
    name: string,
    { uid, replicas }: PlacedCollection,
    make: boolean,
    signal?: AbortSignal,
  ): Promise<Current | undefined> {
    for (;;)
      try {
        return await this.#collections.current(uid, signal);
      } catch (error) {
        if (!isCode(error, 'NOT_FOUND')) throw error;
        const owner = await this.#owners.current(name, signal);
        // Another collection has that name now, and nothing was posted for it.
        if (owner.placed.uid !== uid) throw new HersError('NOT_FOUND', `there is another collection ${name} by now`);
        if (!make) return undefined;
        const id = await this.#idOf(name, owner.placed);
        const created = { id, descriptor: new Uint8Array(0), manifest: InboxState.empty().encode() };
        await this.#collections.create(uid, created, replicas).catch((failure) => {
          if (!isCode(failure, 'ALREADY_EXISTS')) throw failure;
        });
      }
  }

  /**
   * Makes a change that `decide` says of the current state, which it may alter; nothing where it
   * says so. It is asked again if another change comes first.
   */
  async #change(
    name: string,
    placed: PlacedCollection,
    make: boolean,
    decide: (now: InboxState) => InboxChange | undefined,
  ): Promise<void> {
    const { uid } = placed;
    let staged: { readonly names: string; readonly stage: StageId } | undefined;
    for (const until = performance.now() + CHANGE_MS; ; await pause(Math.random() * PAUSE_MS)) {
      const current = await this.#current(name, placed, make);
      const change = current && decide(InboxState.decode(current.home.manifest));
      if (!change) return;
      const { next, records = [], removed = [] } = change;
      try {
        // What was staged is used again, unless others have posted some of it meanwhile.
        const names = records.map(({ handle }) => Buffer.from(handle).toString('hex')).join();
        if (records.length > 0 && staged?.names !== names)
          staged = { names, stage: await this.#staging.records(uid, records) };
        await this.#committing.commit(uid, {
          expected: current.home.version,
          manifest: next.encode(),
          records: records.length > 0 ? [staged!.stage] : [],
          removed: removed.map(handleOf),
        });
        return;
      } catch (error) {
        // Not found: too few replicas have what was staged, or the collection is gone.
        if (!isCode(error, 'STALE', 'NOT_FOUND')) throw error;
        if (isCode(error, 'NOT_FOUND')) staged = undefined;
        if (performance.now() > until)
          throw new HersError('UNAVAILABLE', `the inbox of ${name} is changed by others all the time; try again`);
      }
    }
  }

  /** The same for a caller that may be held to partitions. */
  async #changeBy(
    name: string,
    options: CallOptions | undefined,
    make: boolean,
    decide: (now: InboxState) => InboxChange | undefined,
  ): Promise<void> {
    const placed = await this.#owners.find(name);
    if (options?.partitions) throw notHeld('an inbox');
    options?.signal?.throwIfAborted();
    await this.#inTurn(placed.uid, () => this.#change(name, placed, make, decide));
  }

  async drop(name: string, numbers: readonly number[], options?: CallOptions): Promise<void> {
    this.#owners.checkOpen();
    checkNumbers(numbers);
    const wanted = new Set(numbers);
    await this.#changeBy(name, options, false, (next) => {
      const removed = next.drop(({ number }) => wanted.has(number));
      return removed.length > 0 ? { next, removed } : undefined;
    });
  }

  async refuse(name: string, devices: readonly number[], options?: CallOptions): Promise<void> {
    this.#owners.checkOpen();
    const wanted = checkDevices(devices);
    await this.#changeBy(name, options, wanted.length > 0, (next) => {
      if (sameDevices(next.refused, wanted)) return undefined;
      next.refused = wanted;
      return { next };
    });
  }

  // — reading —

  /** For those who change nothing in it. */
  #stateIn(manifest: Uint8Array): InboxState {
    let state = this.#states.get(manifest);
    if (!state) this.#states.set(manifest, (state = InboxState.decode(manifest)));
    return state;
  }

  async *#read(
    name: string,
    choose: (state: InboxState) => readonly InboxEntry[],
    signal: AbortSignal,
  ): AsyncGenerator<InboxItem> {
    for (let left = READS; ; ) {
      const placed = await this.#owners.find(name);
      const current = await this.#current(name, placed, false, signal);
      const wanted = current ? choose(this.#stateIn(current.home.manifest)) : [];
      if (!current || wanted.length === 0) return;
      const shard = shardName(current.placed.uid, HOME);
      let found: SealedRecord[];
      try {
        found = await this.#reading.from(current, HOME, (service) =>
          Array.fromAsync(service.getRecords(shard, wanted.map(handleOf), { signal })),
        );
      } catch (error) {
        signal.throwIfAborted();
        // Some were dropped in between.
        if (!isCode(error, 'NOT_FOUND', 'STALE') || left-- === 0) throw error;
        continue;
      }
      left = READS;
      for (const [i, { number, posted }] of wanted.entries()) yield { number, posted, envelope: found[i].sealed };
    }
  }

  async *take(name: string, given?: InboxRange, options?: CallOptions): AsyncGenerator<InboxItem> {
    this.#owners.checkOpen();
    if (options?.partitions) throw notHeld('an inbox');
    const { after, limit } = checkRange(given);
    using either = eitherSignal(this.#owners.closing, options?.signal);
    const { signal } = either;
    let [last, left] = [after, limit];
    const next = (state: InboxState) => {
      const since = Date.now() - 1000 * this.#limits.age;
      return state
        .entries()
        .filter(({ number, posted }) => number > last && posted >= since)
        .slice(0, Math.min(left, PAGE));
    };
    signal.throwIfAborted();
    for await (const item of this.#read(name, next, signal)) {
      [last, left] = [item.number, left - 1];
      yield item;
      signal.throwIfAborted();
    }
  }

  /** The queries of questions; NOT_FOUND where there is no such item, or it is no question. */
  async questions(name: string, numbers: readonly number[], signal: AbortSignal): Promise<Uint8Array[]> {
    const envelopes = new Map<number, Uint8Array>();
    const wanted = new Set(numbers);
    const next = (state: InboxState) =>
      state
        .entries()
        .filter(({ number }) => wanted.has(number) && !envelopes.has(number))
        .slice(0, PAGE);
    for await (const { number, envelope } of this.#read(name, next, signal)) envelopes.set(number, envelope);
    return numbers.map((number) => questionIn(envelopes.get(number), number));
  }

  // — upkeep —

  /** Makes what was dropped disappear from the disks of all nodes that keep it. */
  async purge({ uid }: PlacedCollection, signal: AbortSignal): Promise<void> {
    const { collections } = this.#node.members.directory;
    const inbox = Object.hasOwn(collections, INBOXES + uid) ? collections[INBOXES + uid] : undefined;
    for (const node of inbox?.shards[HOME] ?? [])
      await this.#node.peers.of(node).purge(shardName(inbox!.uid, HOME), { signal });
  }
}
