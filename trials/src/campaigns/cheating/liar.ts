// The cheating store.

import { HersError, type MasterSeed } from '@hers/client';
import { bytesIn, movedResponse } from '@hers/client/testing';
import { decodeQuery, plan } from '@hers/scheme';
import type { Change, CollectionInfo, SealedRecord, SearchRequest, Service } from '@hers/service';
import type { Candidates } from './clients.ts';
import type { Dice } from './dice.ts';
import {
  anyError,
  BLOCK_AT,
  bytesOf,
  flipped,
  forged,
  garbage,
  type Item,
  idAt,
  LIST_CHEATS,
  NUMBERS,
  patched,
  QUERY_AT,
  sealed,
  withBytes,
  withOne,
  withOneScore,
  without,
} from './forging.ts';
import { COPY, Content, type HistoryNode, hashOf, hex, NAMES, openManifest, SCRATCH, type World } from './truth.ts';

export interface Doing {
  readonly number: number;
  readonly dice: Dice;
  /** Of every call of the service; or the one that is cheated at. */
  readonly probability: number;
  readonly at: number | undefined;
  readonly effect: ((content: Content) => Content) | undefined;
  readonly routes: ReadonlyMap<string, Route>;
  readonly cheats: string[];
  readonly thrown: Set<unknown>;
  /** Whether responses may hold wrong scores. */
  isTampered: boolean;
  calls: number;
  /**
   * Every response is forged, and no candidate is given: what the review of this code calls an
   * oracle.
   */
  readonly isSiege: boolean;
  /** What the client sent, where it is looked at. */
  readonly sent: Uint8Array[] | undefined;
}

/** What the store shows under a name. */
export interface Route {
  readonly real: string;
  /** All methods, or these. */
  readonly methods?: ReadonlySet<string>;
  /** Whether staged data is altered there. */
  readonly spoils?: boolean;
}

const STREAMS = new Set(['getRecords', 'getLists', 'getBlock', 'search', 'snapshot']);
/**
 * In a search under compact, what canaries need not detect. A bit of C0 is one score, and a low bit
 * of C1 moves all scores by less than their noise.
 */
const ADMITTED: ReadonlySet<string> = new Set(['changes one score', 'flips a bit, and mends the checksum']);
/** Data of earlier calls, kept for replaying it. */
const KEPT_ITEMS = 64;

type Created = Parameters<Service['createCollection']>[1];

/** A store with one side for every name, which lies about all of them. */
export class Liar {
  readonly store: Service;
  readonly #key: MasterSeed;
  readonly nodes: Map<string, HistoryNode> = new Map();
  readonly #worldOf = new Map<string, World>();
  /** By the real name: the node that is current there. */
  readonly heads: Map<string, HistoryNode> = new Map();
  /** What each name stands for while the store is honest. */
  readonly main: Map<string, string> = new Map();
  readonly forks: Map<string, string[]> = new Map();
  /** Sides whose blocks, lists or records differ from what their manifests name. */
  readonly spoiled: Set<string> = new Set();
  /** Hashes of sealed records as clients have made them, with their handles. */
  readonly #genuine = new Map<string, string>();
  readonly #items = new Map<string, Item[]>();
  readonly #manifests: { version: number; manifest: Uint8Array }[] = [];
  readonly #infos: CollectionInfo[] = [];
  readonly tally: Map<string, Map<string, number>> = new Map();
  readonly violations: string[] = [];
  searches = 0;
  fetches = 0;
  /** The largest number of candidate sets open at a time. */
  mostOpen = 0;
  served = 0;
  /**
   * Writes that a client based on another history than the store has, and that the store accepted
   * because the version was the same. The client is not at fault. An honest store compares
   * versions, not hashes. A client whose own commit was swallowed by a lying store writes on top of
   * it, and only clients that share its memory are stopped before.
   */
  grafts = 0;
  #forkCount = 0;
  doing: Doing | undefined;

  constructor(store: Service, key: MasterSeed) {
    this.store = store;
    this.#key = key;
  }

  /** What a client is given; `candidatesOf` counts what it shows, by name. */
  service(candidatesOf: (name: string) => Candidates): Service {
    return new Proxy(this.store, {
      get: (_, method: string) => {
        if (method === 'close') return async () => {};
        if (!STREAMS.has(method)) return (...args: unknown[]) => this.#called(method, args);
        return (...args: unknown[]) => {
          // The call itself does not tell candidates from pending records, which a client reads
          // whatever it found; only the caller does.
          const isBecauseOfScores = method === 'getRecords' && (new Error().stack ?? '').includes('#ask');
          return this.#streamed(method, args, isBecauseOfScores ? candidatesOf(args[0] as string) : undefined);
        };
      },
    });
  }

  #real(name: string, method: string): string {
    const route = this.doing?.routes.get(name);
    const isRouted = route && (!route.methods || route.methods.has(method));
    return isRouted ? route.real : (this.main.get(name) ?? name);
  }

  /** The side that the store shows, as it is. */
  async fork(name: string): Promise<string> {
    const from = this.main.get(name) ?? name;
    const real = `${name}.fork${++this.#forkCount}`;
    await this.store.restore(real, await Array.fromAsync(this.store.snapshot(from)));
    this.heads.set(real, this.heads.get(from)!);
    const forks = this.forks.get(name) ?? [];
    forks.push(real);
    this.forks.set(name, forks);
    return real;
  }

  /** Forks that no client will be shown any more. */
  async forget(name: string, keep: number): Promise<void> {
    const forks = (this.forks.get(name) ?? []).filter((real) => real !== this.main.get(name));
    for (const real of forks.slice(0, Math.max(0, forks.length - keep))) await this.drop(name, real);
  }

  async drop(name: string, real: string): Promise<void> {
    await this.store.deleteCollection(real);
    this.heads.delete(real);
    this.spoiled.delete(real);
    this.forks.set(
      name,
      (this.forks.get(name) ?? []).filter((each) => each !== real),
    );
  }

  #isChosen(): boolean {
    const { doing } = this;
    if (!doing) return false;
    const at = doing.calls++;
    return doing.at === undefined ? doing.dice.happens(doing.probability) : doing.at === at;
  }

  #cheat(method: string, kind: string): void {
    this.doing?.cheats.push(`${method}: ${kind}`);
  }

  #throws(method: string, when: string): Error {
    const { kind, error } = anyError(this.doing!.dice);
    this.#cheat(method, `${kind} ${when}`);
    this.doing!.thrown.add(error);
    return error;
  }

  #look(args: readonly unknown[]): unknown[] {
    const sent = this.doing?.sent;
    if (!sent) return [...args];
    const take = (value: unknown): void => {
      if (typeof value === 'string') sent.push(Buffer.from(value));
      else for (const bytes of bytesIn(value)) sent.push(bytes.slice());
    };
    return args.map((arg) => {
      const isStream = arg !== null && typeof arg === 'object' && Symbol.iterator in arg && 'next' in arg;
      if (!isStream) take(arg);
      return isStream ? tapped(arg as Iterable<unknown>, take) : arg;
    });
  }

  async *#streamed(method: string, asked: unknown[], candidates: Candidates | undefined): AsyncGenerator<Item> {
    const isChosen = this.#isChosen();
    const args = this.#look(asked);
    this.served++;
    const { doing } = this;
    const name = args[0] as string;
    const real = this.#real(name, method);
    const verified = candidates && this.#shown(candidates, args[1] as Uint8Array[]);
    if (method === 'search') this.searches++;
    const rest = args.slice(1);
    if (doing?.isSiege && candidates && doing.dice.happens(0.85)) throw this.#throws('getRecords', 'to all candidates');
    if (doing?.isSiege && method === 'search' && doing.dice.happens(0.7)) {
      const request = rest[0] as SearchRequest;
      const responses = (await this.#given(method, real, rest)) as Uint8Array[];
      this.#cheat(method, 'forges all scores');
      yield* responses.map((response) => this.#forged(real, request, response, doing.dice));
      return;
    }
    if (isChosen && method === 'search' && doing!.dice.happens(0.3) && this.heads.has(real)) {
      this.#cheat(method, 'answers whatever the version');
      yield* await this.#given(method, real, [
        { ...(rest[0] as SearchRequest), version: this.heads.get(real)!.version },
      ]);
      return;
    }
    if (isChosen && doing!.dice.happens(0.25)) {
      const when = doing!.dice.of(['before anything', 'in the middle', 'at the end']);
      const error = this.#throws(method, when);
      if (when === 'before anything') throw error;
      const items = await this.#given(method, real, rest);
      yield* items.slice(0, when === 'at the end' ? items.length : Math.ceil(items.length / 2));
      throw error;
    }
    const all = await this.#given(method, real, rest);
    const changed = isChosen ? await this.#change(method, real, args, all) : undefined;
    this.#keep(method, all);
    const given = changed ?? all;
    yield* given;
    // Under an older key the same record has other bytes. A record with other content would have
    // ended the call before this line.
    const isTrue = (item: Item, i: number) => {
      const handle = hex((all[i] as SealedRecord).handle);
      return hex((item as SealedRecord).handle) === handle && this.#genuine.get(hashOf(bytesOf(item))) === handle;
    };
    if (verified && given.length === all.length && given.every(isTrue)) verified();
  }

  /** All that the real store gives. */
  #given(method: string, real: string, rest: unknown[]): Promise<Item[]> {
    const stream = (this.store as unknown as Record<string, (...args: unknown[]) => AsyncIterable<Item>>)[method](
      real,
      ...rest,
    );
    // Responses may be views of memory that is gone when the next one is here.
    const isPassing = method === 'search';
    return Array.fromAsync(stream, (item) => (isPassing ? (new Uint8Array(item as Uint8Array) as Item) : item));
  }

  #keep(method: string, items: readonly Item[]): void {
    const kept = this.#items.get(method) ?? [];
    for (const item of items.slice(-8)) kept.push(item);
    this.#items.set(method, kept.slice(-KEPT_ITEMS));
  }

  /** A set of candidates; returns a function to call once the records were returned unaltered. */
  #shown(candidates: Candidates, handles: readonly Uint8Array[]): () => void {
    this.fetches++;
    const asked = handles.map(hex);
    const call = this.doing?.number ?? 0;
    const wrong = candidates.ask(asked, call);
    this.mostOpen = Math.max(this.mostOpen, candidates.most);
    if (wrong) this.violations.push(wrong);
    return () => candidates.given(asked, call);
  }

  async #change(
    method: string,
    real: string,
    args: unknown[],
    items: readonly Item[],
  ): Promise<readonly Item[] | undefined> {
    const { dice } = this.doing!;
    const old = this.#items.get(method) ?? [];
    for (let attempt = 0; attempt < 8; attempt++) {
      const special = this.#special(method, real, args, items);
      const [kind, change] = special.length > 0 && dice.happens(0.5) ? dice.of(special) : dice.of(LIST_CHEATS);
      const changed = await change(items, dice, old);
      if (!changed) continue;
      this.#cheat(method, kind);
      if (method === 'search' && ADMITTED.has(kind)) this.doing!.isTampered = true;
      return changed;
    }
    return undefined;
  }

  #forged(real: string, { queries }: SearchRequest, response: Uint8Array, dice: Dice): Uint8Array {
    const query = queries.find((each) => hex(decodeQuery(each).queryId) === hex(idAt(response, QUERY_AT)));
    return query ? forged(this.heads.get(real)?.world, query, response, dice) : response;
  }

  /** Further manipulations of this method's result. */
  #special(
    method: string,
    real: string,
    args: unknown[],
    items: readonly Item[],
  ): [string, (items: readonly Item[], dice: Dice, old: readonly Item[]) => Item[] | undefined | Promise<Item[]>][] {
    const { dice } = this.doing!;
    const others = [...this.heads.keys()].filter((other) => other !== real);
    const fromOther = async (rest: unknown[]): Promise<Item[]> =>
      others.length === 0 ? [] : this.#given(method, dice.of(others), rest).catch(() => []);
    if (method === 'getRecords')
      return [
        ['records of another collection', () => fromOther(args.slice(1))],
        [
          'an older copy of a record',
          (all, _, old) => {
            const older = (old as SealedRecord[]).filter(({ handle, sealed: bytes }) =>
              (all as SealedRecord[]).some(
                (now) => hex(now.handle) === hex(handle) && Buffer.compare(now.sealed, bytes) !== 0,
              ),
            );
            const one = older[0];
            return one && (all as SealedRecord[]).map((now) => (hex(now.handle) === hex(one.handle) ? one : now));
          },
        ],
        [
          'alters a handle',
          (all, roll) =>
            withOne(all, roll, (item) => ({
              ...(item as SealedRecord),
              handle: flipped((item as SealedRecord).handle, roll),
            })),
        ],
        [
          'a later key',
          (all, roll) =>
            withOne(all, roll, (item) => {
              const bytes = bytesOf(item).slice();
              if (bytes.length >= 8) new DataView(bytes.buffer).setUint32(4, roll.below(2 ** 31), true);
              return withBytes(item, bytes);
            }),
        ],
      ];
    if (method === 'getBlock')
      return [
        [
          'another block under this id',
          (all, roll, old) => {
            const id = args[1] as Uint8Array;
            return old.length > 0 ? [patched(bytesOf(roll.of(old)), QUERY_AT, id)] : [...all];
          },
        ],
      ];
    if (method !== 'search') return [];
    const request = args[1] as SearchRequest;
    const responses = items as readonly Uint8Array[];
    const relabelled = (at: number, roll: Dice) => {
      if (responses.length < 2) return undefined;
      const [a, b] = [roll.below(responses.length), roll.below(responses.length)];
      const [idA, idB] = [idAt(responses[a], at), idAt(responses[b], at)];
      if (hex(idA) === hex(idB)) return undefined;
      return responses.with(a, patched(responses[a], at, idB)).with(b, patched(responses[b], at, idA));
    };
    const forge = (message: Uint8Array, roll: Dice) => this.#forged(real, request, message, roll);
    return [
      ['exchanges the ids of blocks', (_, roll) => relabelled(BLOCK_AT, roll)],
      ['exchanges the ids of queries', (_, roll) => relabelled(QUERY_AT, roll)],
      ['forges scores', (_, roll) => withOne(responses, roll, (item) => forge(bytesOf(item), roll))],
      ['forges scores', (_, roll) => responses.map((response) => forge(response, roll))],
      [
        'moves scores to other slots',
        (_, roll) => withOne(responses, roll, (item) => movedResponse(bytesOf(item), 1 + roll.below(2047))),
      ],
      ['changes one score', (_, roll) => withOne(responses, roll, (item) => withOneScore(bytesOf(item), roll))],
      [
        'an older response under this query',
        (_, roll, old) =>
          withOne(responses, roll, (item) => {
            if (old.length === 0) return false;
            const message = patched(bytesOf(roll.of(old)), QUERY_AT, idAt(bytesOf(item), QUERY_AT));
            return patched(patched(message, BLOCK_AT, idAt(bytesOf(item), BLOCK_AT)), 64, bytesOf(item).slice(64, 72));
          }),
      ],
      [
        'says that a block is smaller',
        (_, roll) => withOne(responses, roll, (item) => patched(bytesOf(item), 68, Uint8Array.of(1, 0, 0, 0))),
      ],
      [
        'searches the blocks of another collection',
        () => fromOther([{ ...request, version: others.length > 0 ? this.heads.get(others[0])!.version : 0 }]),
      ],
    ];
  }

  async #called(method: string, given: unknown[]): Promise<unknown> {
    this.served++;
    const args = this.#look(given);
    const isChosen = this.#isChosen();
    const { doing } = this;
    if (isChosen && doing!.dice.happens(0.35)) {
      const isAfter = doing!.dice.happens(0.5);
      const error = this.#throws(method, isAfter ? 'after it was done' : 'before anything');
      if (isAfter) await this.#carryOut(method, args).catch(() => {});
      throw error;
    }
    return isChosen ? this.#lie(method, args) : this.#carryOut(method, args);
  }

  /** Calls the real store, and updates the tree. */
  async #carryOut(method: string, args: unknown[]): Promise<unknown> {
    const { store } = this;
    const name = args[0] as string;
    const real = method === 'listCollections' ? '' : this.#real(name, method);
    switch (method) {
      case 'listCollections':
        return this.#named();
      case 'createCollection': {
        const created = args[1] as Created;
        const node = this.#created(name, created);
        await store.createCollection(real, created);
        this.heads.set(real, node);
        return undefined;
      }
      case 'deleteCollection':
        await store.deleteCollection(real);
        this.heads.delete(real);
        return undefined;
      case 'getCollection': {
        const info = await store.getCollection(real);
        this.#infos.push(info);
        return { ...info, name };
      }
      case 'getManifest': {
        const shown = await store.getManifest(real);
        this.#manifests.push(shown);
        return shown;
      }
      case 'commit': {
        const change = args[1] as Change;
        const node = await this.#committed(real, change);
        const before = this.heads.get(real);
        const isGraft = before !== node && before !== node.parent;
        // A store that accepted foreign data would destroy its own, and gain nothing.
        if (isGraft && (node.id !== before?.id || this.doing?.routes.has(name)))
          throw new HersError('STALE', 'this is based on another version');
        const version = await store.commit(real, change);
        if (isGraft) {
          this.grafts++;
          this.spoiled.add(real);
        }
        this.heads.set(real, node);
        return version;
      }
      case 'stageRecords':
      case 'stageList':
      case 'stageBlock':
        return this.#stage(method, real, name, args);
      case 'restore': {
        await store.restore(real, args[1] as Uint8Array[]);
        const { manifest } = await store.getManifest(real);
        this.heads.set(real, this.nodes.get(hashOf(manifest))!);
        return undefined;
      }
      case 'purge':
        return store.purge(real);
      default:
        throw new Error(`the campaign does not know ${method}`);
    }
  }

  #created(name: string, { id, descriptor, manifest }: Created): HistoryNode {
    const { request } = JSON.parse(JSON.parse(Buffer.from(descriptor).toString()).text);
    this.#worldOf.set(hex(id), { name, plan: plan(request), options: request });
    return this.#node(id, 1, manifest);
  }

  async #named(): Promise<CollectionInfo[]> {
    const all = await this.store.listCollections();
    const names = [...new Set([...this.main.keys(), SCRATCH, COPY])];
    return names.flatMap((name) => {
      const info = all.find((each) => each.name === (this.main.get(name) ?? name));
      return info ? [{ ...info, name }] : [];
    });
  }

  #node(id: Uint8Array, version: number, manifest: Uint8Array): HistoryNode {
    const hash = hashOf(manifest);
    const known = this.nodes.get(hash);
    if (known) return known;
    const { before } = openManifest(this.#key, id, version, manifest);
    const parent = before === undefined ? undefined : this.nodes.get(before);
    if (before !== undefined && !parent) this.violations.push('a manifest names one before it that nobody wrote');
    const content = parent?.content ?? new Content();
    const world = this.#worldOf.get(hex(id))!;
    const { effect } = this.doing ?? {};
    const node = { world, id: hex(id), version, hash, parent, content: effect ? effect(content) : content };
    this.nodes.set(hash, node);
    return node;
  }

  async #committed(real: string, { expected, manifest }: Change): Promise<HistoryNode> {
    const { id } = await this.store.getCollection(real);
    try {
      return this.#node(id, expected + 1, manifest);
    } catch {
      // A commit of another collection, which a client takes for this one: nothing can open it
      // here.
      for (const other of this.#worldOf.keys()) {
        try {
          return this.#node(Buffer.from(other, 'hex'), expected + 1, manifest);
        } catch {}
      }
      throw new Error('a manifest opens with no key');
    }
  }

  /** Staging; on a side that is lost anyway, staged data is altered. */
  async #stage(method: string, real: string, name: string, args: unknown[]): Promise<unknown> {
    const spoils = this.doing?.routes.get(name)?.spoils && this.doing.dice.happens(0.5);
    const dice = this.doing?.dice;
    if (method === 'stageList')
      return this.store.stageList(real, spoils ? flipped(args[1] as Uint8Array, dice!) : (args[1] as Uint8Array));
    if (method === 'stageBlock') {
      let pieces = await Array.fromAsync(args[1] as Iterable<Uint8Array>);
      if (spoils) {
        const block = Buffer.concat(pieces);
        const low = 32 + 48 + 32;
        block[low + 4 * dice!.below((block.length - 8 - low) >> 2)] ^= 1;
        pieces = [sealed(block)];
        this.#cheat(method, 'alters what is staged');
      }
      return this.store.stageBlock(real, pieces);
    }
    const records = await Array.fromAsync(args[1] as Iterable<SealedRecord>);
    const copies = records.map(({ handle, sealed: bytes }) => ({ handle: handle.slice(), sealed: bytes.slice() }));
    for (const { handle, sealed: bytes } of copies) this.#genuine.set(hashOf(bytes), hex(handle));
    if (!spoils) return this.store.stageRecords(real, copies);
    this.#cheat(method, 'alters what is staged');
    const altered = dice!.happens(0.5)
      ? without(copies, dice!.below(copies.length))
      : withOne(copies, dice!, (item) => withBytes(item, flipped(bytesOf(item), dice!)));
    return this.store.stageRecords(real, (altered ?? copies) as SealedRecord[]);
  }

  async #lie(method: string, args: unknown[]): Promise<unknown> {
    const { dice } = this.doing!;
    const name = args[0] as string;
    const done = () => this.#carryOut(method, args);
    const tell = (kind: string) => this.#cheat(method, kind);
    switch (method) {
      case 'getManifest': {
        const shown = (await done()) as { version: number; manifest: Uint8Array };
        const old = this.#manifests.length > 0 ? dice.of(this.#manifests.slice(-KEPT_ITEMS)) : shown;
        const [kind, lie] = dice.of<[string, object]>([
          ['an older or other manifest under its own version', old],
          ['an older or other manifest as this version', { ...shown, manifest: old.manifest }],
          ['an older or other manifest as a newer version', { manifest: old.manifest, version: shown.version + 1 }],
          ['this manifest as a newer version', { ...shown, version: shown.version + 1 + dice.below(200) }],
          ['a version that is none', { ...shown, version: dice.of(NUMBERS) }],
          ['flips a bit', { ...shown, manifest: flipped(shown.manifest, dice) }],
          ['garbage', { ...shown, manifest: garbage(dice, dice.below(200)) }],
        ]);
        tell(kind);
        return lie;
      }
      case 'getCollection': {
        const info = (await done()) as CollectionInfo;
        const old = this.#infos.length > 0 ? dice.of(this.#infos.slice(-KEPT_ITEMS)) : info;
        const [kind, lie] = dice.of<[string, Partial<CollectionInfo>]>([
          ['another description', { descriptor: old.descriptor }],
          ['another id', { id: old.id }],
          ['another collection', { ...old, name }],
          ['alters the description', { descriptor: flipped(info.descriptor, dice) }],
          ['a description that is none', { descriptor: garbage(dice, dice.below(100)) }],
          ['an empty description', { descriptor: Buffer.from('{"text":"{}","mac":""}') }],
          ['an id that is none', { id: garbage(dice, dice.below(40)) }],
          ['another name', { name: dice.of([...NAMES, '', 'nobody']) }],
          ['another version', { version: dice.of(NUMBERS) }],
          ['other numbers', { records: dice.of(NUMBERS), blocks: dice.of(NUMBERS), bytes: dice.of(NUMBERS) }],
        ]);
        tell(kind);
        return { ...info, ...lie };
      }
      case 'listCollections': {
        const infos = (await done()) as CollectionInfo[];
        const one = dice.below(infos.length);
        const [kind, lie] = dice.of<[string, CollectionInfo[]]>([
          ['leaves one out', infos.toSpliced(one, 1)],
          ['repeats one', [...infos, infos[one]]],
          ['nothing', []],
          ['garbage', infos.with(one, { ...infos[one], descriptor: garbage(dice, 50) })],
          ['one for another', infos.with(one, { ...infos[0], name: infos[one].name })],
          ['a name that is none', infos.with(one, { ...infos[one], name: '../x' })],
        ]);
        tell(kind);
        return lie;
      }
      case 'commit': {
        const change = args[1] as Change;
        const kind = dice.of(['says done and does nothing', 'says STALE when it is done', 'another version', 'twice']);
        tell(kind);
        if (kind === 'says done and does nothing') {
          await this.#committed(this.#real(name, method), change);
          return change.expected + 1;
        }
        const version = await done();
        if (kind === 'says STALE when it is done') throw new HersError('STALE', 'somebody was first');
        if (kind === 'twice') return done();
        return dice.happens(0.5) ? dice.of(NUMBERS) : (version as number) + dice.below(5) - 2;
      }
      case 'stageRecords':
      case 'stageList':
      case 'stageBlock': {
        const stage = await done();
        tell('a stage that is none');
        return dice.happens(0.5) ? `${stage}x` : '';
      }
      default:
        // createCollection, deleteCollection, purge, restore
        if (method === 'createCollection') this.#created(name, args[1] as Created);
        tell('says done and does nothing');
        return undefined;
    }
  }
}

function* tapped(items: Iterable<unknown>, take: (item: unknown) => void): Generator<unknown> {
  for (const item of items) {
    take(item);
    yield item;
  }
}
