// A store that cheats at random, in every way it can, under clients that go on with their work. Nothing it does may lead to a wrong match, a wrong payload or a lost write without an
// error, to more candidate sets than it may be shown, to an error that is none of ours, or to a call that never ends.
//
// The clients' side of the truth is a tree of manifests. Every commit that crosses is a node, whether the store carried it out or not; its parent is the one that the manifest names (the
// campaign has the key), and its content follows from the parent's. What a client reads must be the content of one node that follows from the last it knew. So a commit that the store
// swallowed, a fork and a rollback need no cases of their own: their nodes follow from nothing that was seen, and who reads them without an error is caught.
//
// What SECURITY.md admits is admitted here, in these places and no other:
//   "a server can compute a response from other rows than it should, and as long as no record is fetched nothing shows it": `isTampered`, in matches of searches that fetch nothing,
//     and in what `verify` says; and what is found at all, for a record whose score was made small is not fetched.
//   "A first contact trusts the version it is shown": a client is held to what it has opened; accepting by a person is a first contact.
//   "A snapshot restored beside its original has the same keys and versions of its own: a store could show the newer of the two for the other": it follows from what was seen.
//   A fork between versions further apart than a manifest names hashes (versions.ts): `HISTORY`.

import { createDecipheriv, createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  type Collection,
  type CollectionOptions,
  Database,
  HersError,
  MasterSeed,
  type Match,
  type Payload,
  type Plan,
  type SearchOptions,
  type SearchResult,
  ShortMemory,
  type VersionMemory,
} from '@hers/client';
import { VersionFile } from '@hers/client/versions';
import { type Compressor, fit, load } from '@hers/compress';
import { checksum } from '@hers/ring';
import { decodeQuery, type ErrorCode, encodeResponse, noiselessScores, plainScores, plan } from '@hers/scheme';
import type { Change, CollectionInfo, SealedRecord, SearchRequest, Service } from '@hers/service';
import { openStore } from '@hers/store';
import { columns } from './report.ts';

const DIMENSION = 16;
const KEPT = 8;
/** Hashes that a manifest names. */
const HISTORY = 128;
/** Candidate sets that a store may be shown without having been verified. */
const MOST_UNVERIFIED = 3;
const HANG_MS = 60_000;
/** Calls between two times at which the store is honest and everything is looked at. */
const ROUND = 40;
/** Ids that are written again and again; a collection may have more, which stay. */
const PEOPLE = 32;
const REVISIONS = 3;
const NAMES = ['compact', 'exact', 'short', 'sums'] as const;
const SCRATCH = 'scratch';
const COPY = 'copy';
const LAST_CALLS = 12;
/** Calls that take what the store shows for what is right: a person says so. */
const TRUSTING = new Set(['accept', 'restore']);
/** Calls that read the manifest, and so are held to all that their memory knows. */
const READING = new Set(['get', 'list', 'count', 'describe']);
/** Calls in a row of a store that does nothing but ask what its own ciphertexts decrypt to. */
const SIEGE = 10;

// — chance —

/** Numbers that follow from a seed and names. Every call has its own, so that a call is the same however the one before went. */
class Dice {
  #state: number;

  constructor(...names: number[]) {
    let state = 0x9e3779b9;
    for (const name of names) state = Math.imul(state ^ name ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9;
    this.#state = state;
  }

  /** In [0, 1): mulberry32. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let t = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  }

  below(limit: number): number {
    return Math.floor(this.next() * limit);
  }

  happens(probability: number): boolean {
    return this.next() < probability;
  }

  of<T>(things: readonly T[]): T {
    return things[this.below(things.length)];
  }

  weighted<T>(things: readonly (readonly [number, T])[]): T {
    let at = this.next() * things.reduce((sum, [weight]) => sum + weight, 0);
    for (const [weight, thing] of things) {
      at -= weight;
      if (at < 0) return thing;
    }
    return things[things.length - 1][1];
  }
}

// — what is true —

interface Plain {
  readonly vector: Float32Array;
  readonly payload?: Payload;
}

/** What a collection holds: what it began with, and what was changed since. */
class Content {
  readonly #base: ReadonlyMap<string, Plain>;
  readonly #changed: ReadonlyMap<string, Plain | undefined>;

  constructor(
    base: ReadonlyMap<string, Plain> = new Map(),
    changed: ReadonlyMap<string, Plain | undefined> = new Map(),
  ) {
    this.#base = base;
    this.#changed = changed;
  }

  get(id: string): Plain | undefined {
    return this.#changed.has(id) ? this.#changed.get(id) : this.#base.get(id);
  }

  with(changes: Iterable<readonly [string, Plain | undefined]>): Content {
    return new Content(this.#base, new Map([...this.#changed, ...changes]));
  }

  entries(): [string, Plain][] {
    const kept = [...this.#base].filter(([id]) => !this.#changed.has(id));
    return [...kept, ...[...this.#changed].filter((entry): entry is [string, Plain] => entry[1] !== undefined)];
  }
}

interface World {
  readonly name: string;
  readonly plan: Plan;
  readonly isVault: boolean;
  /** How the plan for an index of this dimension is asked for. */
  readonly options: CollectionOptions;
}

interface Node {
  readonly world: World;
  readonly id: string;
  readonly version: number;
  readonly hash: string;
  readonly parent: Node | undefined;
  readonly content: Content;
}

function follows(node: Node, from: Node): boolean {
  let at: Node | undefined = node;
  while (at && at.version > from.version) at = at.parent;
  return at === from;
}

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const hashOf = (manifest: Uint8Array) => createHash('sha256').update(manifest).digest('hex').slice(0, 32);

/** Version and predecessor, as a sealed manifest names them (client/src/manifest.ts). */
function openManifest(key: MasterSeed, id: Uint8Array, version: number, sealed: Uint8Array): { before?: string } {
  const about = Buffer.alloc(8 + 16 + 8);
  about.write('manifest');
  about.set(id, 8);
  about.writeBigUInt64LE(BigInt(version), 24);
  const cipher = createDecipheriv('aes-256-gcm', key.deriveKey('manifest', id), sealed.subarray(0, 12));
  cipher.setAAD(about);
  cipher.setAuthTag(sealed.subarray(-16));
  const text = Buffer.concat([cipher.update(sealed.subarray(12, -16)), cipher.final()]).toString();
  const { history } = JSON.parse(text) as { history: string };
  return history ? { before: history.slice(0, 32) } : {};
}

/** Unit vectors that follow from a number. */
function vectorOf(number: number): Float32Array {
  const dice = new Dice(number, 7);
  const out = Float32Array.from({ length: DIMENSION }, () => 2 * dice.next() - 1);
  const norm = Math.hypot(...out);
  return out.map((x) => x / norm);
}

const SECRET_NAME = 'a-very-private-person';
const SECRET_NOTE = 'a private note about';
const idOf = (person: number) => `${SECRET_NAME}-${person}`;
const plainOf = (person: number, revision: number, isVault: boolean): Plain => ({
  vector: vectorOf(person * REVISIONS + revision),
  ...(isVault && person % 3 > 0 ? { payload: { note: `${SECRET_NOTE} ${person}`, revision } } : {}),
});

// — the store —

/** One call of a client, and what the store did during it. */
interface Doing {
  readonly number: number;
  /** What the store rolls. */
  readonly dice: Dice;
  /** Of every call of the service; or the one that is cheated at. */
  readonly probability: number;
  readonly at: number | undefined;
  readonly effect: ((content: Content) => Content) | undefined;
  readonly routes: ReadonlyMap<string, Route>;
  readonly cheats: string[];
  readonly thrown: Set<unknown>;
  /** Whether responses may hold other scores than they should. */
  isTampered: boolean;
  calls: number;
  /** Every response is forged, and no candidate is given: what the review of this code calls an oracle. */
  readonly isSiege: boolean;
  /** What the client sent, where it is looked at. */
  readonly sent: Uint8Array[] | undefined;
}

/** What the store shows under a name. */
interface Route {
  readonly real: string;
  /** All methods, or these. */
  readonly methods?: ReadonlySet<string>;
  /** Whether what is staged there is altered. */
  readonly spoils?: boolean;
}

/** The sets that the store was shown of one collection by the clients of one memory, and that it has not proved. */
class Candidates {
  /** By their handles in order; with the call that asked for them last. */
  readonly #open = new Map<string, number>();
  /** Shown before somebody resumed: another client may not know of that, and ask for them again. */
  readonly #past = new Set<string>();
  isStopped = false;
  most = 0;

  /** The set that is meant: in one call it may be asked for again, without those that were deleted meanwhile. */
  #meant(handles: readonly string[], call: number): string {
    const exactly = handles.toSorted().join(' ');
    if (this.#open.has(exactly) || this.#past.has(exactly)) return exactly;
    const isLarger = ([set, last]: [string, number]) =>
      last === call && handles.every((handle) => set.includes(handle));
    return [...this.#open].find(isLarger)?.[0] ?? exactly;
  }

  /** A set is asked for; returns what is wrong with that. */
  ask(handles: readonly string[], call: number): string | undefined {
    const set = this.#meant(handles, call);
    if (this.#past.has(set)) return undefined;
    const isNew = !this.#open.has(set);
    this.#open.set(set, call);
    this.most = Math.max(this.most, this.#open.size);
    if (isNew && this.isStopped) return 'candidates were shown after a wrong score, and before anybody resumed';
    return this.#open.size > MOST_UNVERIFIED
      ? `${this.#open.size} sets of candidates were shown and not verified`
      : undefined;
  }

  /** The store gave these records as they are. When their scores are wrong the client stops, and says so. */
  given(handles: readonly string[], call: number): void {
    this.#open.delete(this.#meant(handles, call));
  }

  resume(): void {
    for (const set of this.#open.keys()) this.#past.add(set);
    this.#open.clear();
    this.isStopped = false;
  }
}

const CODES: readonly ErrorCode[] = [
  ...(['STALE', 'STALE', 'STALE', 'NOT_FOUND', 'NOT_FOUND', 'UNAVAILABLE', 'OVERLOADED', 'INTERNAL'] as const),
  ...(['ALREADY_EXISTS', 'TIMED_OUT', 'INTEGRITY', 'WRONG_KEY', 'DAMAGED', 'CLOSED', 'LOCKED', 'FORBIDDEN'] as const),
  ...(['INVALID_ARGUMENT', 'MALFORMED', 'UNSUPPORTED_VERSION', 'STORAGE', 'TOO_LARGE', 'NEEDS_VAULT'] as const),
];

function anyError(dice: Dice): { kind: string; error: Error } {
  if (dice.happens(0.1)) return { kind: 'Error', error: new Error('something broke') };
  if (dice.happens(0.1)) return { kind: 'TypeError', error: new TypeError('undefined is not a function') };
  if (dice.happens(0.05)) return { kind: 'AbortError', error: new DOMException('stopped', 'AbortError') };
  const code = dice.of(CODES);
  return { kind: code, error: new HersError(code, 'the store says so') };
}

const STREAMS = new Set(['getRecords', 'getLists', 'getBlock', 'search', 'snapshot']);
/** Things of earlier calls that are kept for showing them again. */
const KEPT_ITEMS = 64;

type Item = Uint8Array | SealedRecord;
const bytesOf = (item: Item) => (item instanceof Uint8Array ? item : item.sealed);
const isSame = (a: Item, b: Item) =>
  Buffer.compare(bytesOf(a), bytesOf(b)) === 0 &&
  (a instanceof Uint8Array || b instanceof Uint8Array || hex(a.handle) === hex(b.handle));
const withBytes = <T extends Item>(item: T, bytes: Uint8Array): T =>
  (item instanceof Uint8Array ? bytes : { ...item, sealed: bytes }) as T;

/** With one bit turned over. */
function flipped(bytes: Uint8Array, dice: Dice): Uint8Array {
  const copy = new Uint8Array(bytes);
  if (copy.length > 0) copy[dice.below(copy.length)] ^= 1 << dice.below(8);
  return copy;
}

/** A message with the checksum that its bytes have. */
function sealed(message: Uint8Array): Uint8Array {
  if (message.length < 16) return message;
  const view = new DataView(message.buffer, message.byteOffset, message.length);
  view.setBigUint64(message.length - 8, checksum(message.subarray(0, -8)), true);
  return message;
}

/** A message with other bytes in one place. */
function patched(message: Uint8Array, at: number, bytes: Uint8Array): Uint8Array {
  const copy = new Uint8Array(message);
  if (at + bytes.length <= copy.length - 8) copy.set(bytes, at);
  return sealed(copy);
}

function garbage(dice: Dice, length: number): Uint8Array {
  return Uint8Array.from({ length }, () => dice.below(256));
}

const QUERY_AT = 32;
const BLOCK_AT = 48;
const idAt = (message: Uint8Array, at: number) => message.slice(at, at + 16);

/** A response with scores of the store's choice: C1 = 0, and C0 the scores themselves, so no key is needed. */
function forged(world: World | undefined, query: Uint8Array, response: Uint8Array, dice: Dice): Uint8Array {
  const { bits0, bits1, parameters, keyId, queryId } = decodeQuery(query);
  const { n, primes } = parameters;
  const modulus = primes.reduce((product, prime) => product * prime, 1);
  const settings = world?.plan;
  const best = dice.below(n);
  const pack = (values: ArrayLike<number>, bits: number) => {
    const out = new Uint8Array((n * bits) / 8);
    for (let j = 0; j < n; j++)
      for (let b = 0; b < bits; b++) if ((values[j] >> b) & 1) out[(j * bits + b) >> 3] |= 1 << ((j * bits + b) & 7);
    return out;
  };
  const scores = Array.from({ length: n }, (_, j) => {
    const wished = j === best ? 0.45 : dice.next() * 0.3;
    // Under exact a value that is no integer would be noticed at once.
    const step = settings?.profile === 'exact' ? settings.unit / modulus : 2 ** -bits0;
    return Math.round(Math.round(wished / step) * step * 2 ** bits0);
  });
  const view = new DataView(response.buffer, response.byteOffset, response.length);
  return encodeResponse({
    parameters,
    keyId,
    queryId,
    blockId: idAt(response, BLOCK_AT),
    first: view.getUint32(64, true),
    count: view.getUint32(68, true),
    bits0,
    bits1,
    packed0: pack(scores, bits0),
    packed1: new Uint8Array((n * bits1) / 8),
  });
}

/** What can be done to any list of things. Nothing where it would change nothing. */
const LIST_CHEATS: readonly [
  string,
  (items: readonly Item[], dice: Dice, old: readonly Item[]) => Item[] | undefined,
][] = [
  ['leaves one out', (items, dice) => without(items, dice.below(items.length))],
  ['gives nothing', () => []],
  ['repeats one', (items, dice) => withOne(items, dice, (item) => item, true)],
  ['swaps two', (items, dice) => swapped(items, dice)],
  ['reverses the order', (items) => (items.length > 1 ? items.toReversed() : undefined)],
  ['gives one too many', (items, dice, old) => (old.length > 0 ? [...items, dice.of(old)] : undefined)],
  ['gives one of an earlier call', (items, dice, old) => withOne(items, dice, () => old.length > 0 && dice.of(old))],
  [
    'gives the bytes of an earlier call',
    (items, dice, old) =>
      withOne(items, dice, (item) => old.length > 0 && withBytes(item, bytesOf(dice.of(old)).slice())),
  ],
  ['gives one for another', (items, dice) => withOne(items, dice, (item) => withBytes(item, bytesOf(dice.of(items))))],
  ['flips a bit', (items, dice) => withOne(items, dice, (item) => withBytes(item, flipped(bytesOf(item), dice)))],
  [
    'flips a bit, and mends the checksum',
    (items, dice) => withOne(items, dice, (item) => withBytes(item, sealed(flipped(bytesOf(item), dice)))),
  ],
  [
    'cuts one off',
    (items, dice) =>
      withOne(items, dice, (item) => withBytes(item, bytesOf(item).slice(0, dice.below(bytesOf(item).length)))),
  ],
  ['gives an empty one', (items, dice) => withOne(items, dice, (item) => withBytes(item, new Uint8Array(0)))],
  [
    'gives garbage',
    (items, dice) => withOne(items, dice, (item) => withBytes(item, garbage(dice, 1 + dice.below(300)))),
  ],
  ['gives something huge', (items, dice) => withOne(items, dice, (item) => withBytes(item, new Uint8Array(2 ** 22)))],
];

const without = <T>(items: readonly T[], at: number) => (items.length > 0 ? items.toSpliced(at, 1) : undefined);

function withOne(
  items: readonly Item[],
  dice: Dice,
  change: (item: Item) => Item | false,
  insert = false,
): Item[] | undefined {
  if (items.length === 0) return undefined;
  const at = dice.below(items.length);
  const changed = change(items[at]);
  return changed === false ? undefined : items.toSpliced(at, insert ? 0 : 1, changed);
}

function swapped(items: readonly Item[], dice: Dice): Item[] | undefined {
  if (items.length < 2) return undefined;
  const a = dice.below(items.length);
  const b = (a + 1 + dice.below(items.length - 1)) % items.length;
  return items.with(a, items[b]).with(b, items[a]);
}

type Created = Parameters<Service['createCollection']>[1];

const NUMBERS = [Number.NaN, -1, 0, 0.5, 2 ** 31, 2 ** 53, Number.POSITIVE_INFINITY, Number.MAX_VALUE];

/** A store that has one side for every name it is asked by, and lies about all of them. */
class Liar {
  readonly store: Service;
  readonly #key: MasterSeed;
  readonly nodes = new Map<string, Node>();
  readonly #worldOf = new Map<string, World>();
  /** By what names are really kept: the node that is current there. */
  readonly heads = new Map<string, Node>();
  /** What each name is when the store is honest. */
  readonly main = new Map<string, string>();
  readonly forks = new Map<string, string[]>();
  /** Sides whose blocks, lists or records are not what their manifests name. */
  readonly spoiled = new Set<string>();
  /** Hashes of sealed records as clients have made them. */
  readonly #genuine = new Set<string>();
  readonly #items = new Map<string, Item[]>();
  readonly #manifests: { version: number; manifest: Uint8Array }[] = [];
  readonly #infos: CollectionInfo[] = [];
  readonly tally = new Map<string, Map<string, number>>();
  readonly violations: string[] = [];
  searches = 0;
  fetches = 0;
  /** Candidate sets that were open at a time, at most. */
  mostOpen = 0;
  served = 0;
  /** Writes that a client based on another history than the store has, and that the store took because the number was the same. */
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
          // Nothing in the call itself tells candidates from waiting records, which a client reads whatever it found: only who asks.
          const isBecauseOfScores = method === 'getRecords' && (new Error().stack ?? '').includes('#ask');
          return this.#streamed(method, args, isBecauseOfScores ? candidatesOf(args[0] as string) : undefined);
        };
      },
    });
  }

  /** What a name is for a method now. */
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

  /** Forks that nobody will be shown any more. */
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

  /** A kind of cheat for this call, or none. */
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
    if (method === 'search' && this.spoiled.has(real) && doing) doing.isTampered = true;
    const rest = args.slice(1);
    if (doing?.isSiege && candidates && doing.dice.happens(0.85)) throw this.#throws('getRecords', 'to all candidates');
    if (doing?.isSiege && method === 'search' && doing.dice.happens(0.7)) {
      const request = rest[0] as SearchRequest;
      const responses = (await this.#given(method, real, rest)) as Uint8Array[];
      this.#cheat(method, 'forges all scores');
      doing.isTampered = true;
      yield* responses.map((response) => this.#forged(real, request, response, doing.dice));
      return;
    }
    if (isChosen && method === 'search' && doing!.dice.happens(0.1) && this.heads.has(real)) {
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
    const isTrue = (item: Item, i: number) => isSame(item, all[i]) && this.#genuine.has(hashOf(bytesOf(item)));
    if (verified && given.length === all.length && given.every(isTrue)) verified();
  }

  /** All that the real store gives. */
  #given(method: string, real: string, rest: unknown[]): Promise<Item[]> {
    const stream = (this.store as unknown as Record<string, (...args: unknown[]) => AsyncIterable<Item>>)[method](
      real,
      ...rest,
    );
    return Array.fromAsync(stream);
  }

  #keep(method: string, items: readonly Item[]): void {
    const kept = this.#items.get(method) ?? [];
    for (const item of items.slice(-8)) kept.push(item);
    this.#items.set(method, kept.slice(-KEPT_ITEMS));
  }

  /** A set of candidates; returns what to call when the records were given as they are. */
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
      if (method === 'search') this.doing!.isTampered = true;
      return changed;
    }
    return undefined;
  }

  #forged(real: string, { queries }: SearchRequest, response: Uint8Array, dice: Dice): Uint8Array {
    const query = queries.find((each) => hex(decodeQuery(each).queryId) === hex(idAt(response, QUERY_AT)));
    return query ? forged(this.heads.get(real)?.world, query, response, dice) : response;
  }

  /** What can be done to what this method gives, besides. */
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

  /** What the real store does, with the tree kept up. */
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
        // A store that took what belongs elsewhere would destroy what it has, and gain nothing.
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

  /** The first node of a collection, whether there will be one or not. */
  #created(name: string, { id, descriptor, manifest }: Created): Node {
    const { request, enrolment } = JSON.parse(JSON.parse(Buffer.from(descriptor).toString()).text);
    this.#worldOf.set(hex(id), { name, plan: plan(request), isVault: enrolment === 'vault', options: request });
    return this.#node(id, 1, manifest);
  }

  /** Collections by the names that clients know. */
  async #named(): Promise<CollectionInfo[]> {
    const all = await this.store.listCollections();
    const names = [...new Set([...this.main.keys(), SCRATCH, COPY])];
    return names.flatMap((name) => {
      const info = all.find((each) => each.name === (this.main.get(name) ?? name));
      return info ? [{ ...info, name }] : [];
    });
  }

  /** Adds the node of a manifest. */
  #node(id: Uint8Array, version: number, manifest: Uint8Array): Node {
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

  async #committed(real: string, { expected, manifest }: Change): Promise<Node> {
    const { id } = await this.store.getCollection(real);
    try {
      return this.#node(id, expected + 1, manifest);
    } catch {
      // A commit of another collection, which a client believes to be this one: nothing opens it here.
      for (const other of this.#worldOf.keys()) {
        try {
          return this.#node(Buffer.from(other, 'hex'), expected + 1, manifest);
        } catch {}
      }
      throw new Error('a manifest opens with no key');
    }
  }

  /** Staging; on a side that is lost anyway, what is staged is altered. */
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
    for (const { sealed: bytes } of copies) this.#genuine.add(hashOf(bytes));
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

function bytesIn(value: unknown): Uint8Array[] {
  if (value instanceof Uint8Array) return [value];
  if (Array.isArray(value)) return value.flatMap(bytesIn);
  if (value !== null && typeof value === 'object' && !(value instanceof AbortSignal))
    return Object.values(value).flatMap(bytesIn);
  return [];
}

function* tapped(items: Iterable<unknown>, take: (item: unknown) => void): Generator<unknown> {
  for (const item of items) {
    take(item);
    yield item;
  }
}

// — the clients —

/** A memory, what the store was shown of it, and by what name it goes in reports. */
class Remembering {
  readonly name: string;
  readonly memory: VersionMemory;
  readonly #candidates = new Map<string, Candidates>();

  constructor(name: string, memory: VersionMemory) {
    this.name = name;
    this.memory = memory;
  }

  candidates(name: string): Candidates {
    let candidates = this.#candidates.get(name);
    if (!candidates) this.#candidates.set(name, (candidates = new Candidates()));
    return candidates;
  }
}

class Client {
  readonly name: string;
  readonly remembering: Remembering;
  readonly database: Database;
  /** By collection, the newest node that this client has certainly opened. */
  readonly known = new Map<string, Node>();
  /** Calls until it goes away. */
  left: number;

  constructor(name: string, remembering: Remembering, liar: Liar, key: MasterSeed, left = Number.POSITIVE_INFINITY) {
    this.name = name;
    this.remembering = remembering;
    this.left = left;
    const service = liar.service((collection) => remembering.candidates(collection));
    this.database = new Database(service, { key, versions: remembering.memory, threads: 1 });
  }
}

interface Task {
  readonly what: string;
  readonly name: string;
  /** What a commit of it does. */
  readonly effect?: (content: Content) => Content;
  readonly run: (client: Client) => Promise<unknown>;
  /** What is wrong with the result, if anything. */
  readonly check: (result: never, seen: Sight) => string | undefined | Promise<string | undefined>;
  /** Whether its answer rests on decrypted scores alone. */
  readonly isPlain?: boolean;
}

/** What a result may be compared with. */
interface Sight {
  /** Nodes that follow from what the client knew, the newest first. */
  readonly nodes: readonly Node[];
  /** What the client's memory says afterwards. */
  readonly after: Node | undefined;
  readonly isTampered: boolean;
  /** Whether the store was not asked for anything. */
  readonly isSilent: boolean;
}

const samePayload = (a: Payload | undefined, b: Payload | undefined) => JSON.stringify(a) === JSON.stringify(b);
const sameVector = (a: ArrayLike<number>, b: ArrayLike<number>) =>
  a.length === b.length && Array.from(a).every((x, i) => x === b[i]);
const samePlain = (a: Plain | undefined, b: Plain | undefined) =>
  a === b ||
  (a !== undefined && b !== undefined && sameVector(a.vector, b.vector) && samePayload(a.payload, b.payload));

/** Distances come out of the scheme squared. */
const asShown = ({ metric }: Plan, score: number) => (metric === 'euclidean' ? Math.sqrt(Math.max(0, score)) : score);
/** −1 where less is better. */
const signOf = ({ plan: { metric } }: World) => (metric === 'euclidean' ? -1 : 1);

/** Scores as they should be. */
class Scores {
  readonly #models: readonly Compressor[];

  constructor(models: readonly Compressor[]) {
    this.#models = models;
  }

  full({ plan: settings }: World, vector: Float32Array, probe: Float32Array): number {
    return asShown(settings, plainScores({ ...settings, profile: 'compact' }, vector, probe)[0]);
  }

  /** Whether a match has the score of this record. */
  async fits(world: World, match: Match, { vector }: Plain, probe: Float32Array): Promise<boolean> {
    const { plan: settings } = world;
    // Distances are compared as their squares, as they are decrypted.
    const isDistance = settings.metric === 'euclidean';
    const shown = isDistance ? match.score ** 2 : match.score;
    const near = (score: number, room: number) => Math.abs(shown - score) <= room;
    if (match.scoreOrigin === 'recomputed')
      return near(plainScores({ ...settings, profile: 'compact' }, vector, probe)[0], 1e-5);
    if (match.scoreOrigin === 'noisy')
      return near(noiselessScores(settings, vector, probe)[0], 7.5 * settings.noise.score);
    if (near(plainScores(settings, vector, probe)[0], isDistance ? 1e-5 : 1e-6)) return true;
    if (world.name !== 'short') return false;
    // Whatever compressor it was compared through: while it is exchanged, there are two.
    for (const model of this.#models) {
      const short = plan({ ...world.options, dimension: model.outputDimension });
      const [a, b] = [await model.transform(vector), await model.transform(probe)];
      if (near(plainScores(short, a, b)[0], 1e-6)) return true;
    }
    return false;
  }

  /** Scores of the best, best first; room for noise is up to the caller. */
  best(world: World, content: Content, probe: Float32Array, limit: number): number[] {
    const scores = content.entries().map(([, { vector }]) => this.full(world, vector, probe));
    return scores.sort((a, b) => signOf(world) * (b - a)).slice(0, limit);
  }
}

/** What is wrong with the answer of a search. */
async function wrongIn(
  scores: Scores,
  { matches }: SearchResult,
  probe: Float32Array,
  options: SearchOptions,
  { nodes, isTampered }: Sight,
): Promise<string | undefined> {
  const { limit = 10, threshold, payload = false, rerank = false } = options;
  const isFetched = payload || rerank !== false;
  if (matches.length > limit) return 'more matches than the limit';
  if (new Set(matches.map(({ id }) => id)).size !== matches.length) return 'a match twice';
  const sign = nodes.length > 0 ? signOf(nodes[0].world) : 1;
  for (const [i, match] of matches.entries()) {
    if (i > 0 && sign * match.score > sign * matches[i - 1].score) return 'matches out of order';
    if (threshold !== undefined && !(sign * match.score >= sign * threshold)) return 'a match beyond the threshold';
    let isRight = false;
    for (const { world, content } of nodes) {
      const record = content.get(match.id);
      if (!record) continue;
      if (payload && !samePayload(record.payload, match.payload)) continue;
      // "a server can compute a response from other rows than it should, and as long as no record is fetched nothing shows it"
      isRight = (!isFetched && isTampered) || (await scores.fits(world, match, record, probe));
      if (isRight) break;
    }
    if (!isRight) return `a match that is wrong: ${JSON.stringify(match)}`;
  }
  if (isTampered || nodes.length === 0 || nodes[0].world.name === 'short' || threshold !== undefined) return undefined;
  // Everything that was scored right is ranked right, so the n-th best is as good as the n-th best should be.
  const room = nodes[0].world.plan.profile === 'exact' ? 0.02 : 8 * nodes[0].world.plan.noise.score + 0.01;
  const isComplete = ({ world, content }: Node) => {
    const best = scores.best(world, content, probe, limit);
    return best.length === matches.length && best.every((score, i) => Math.abs(score - matches[i].score) <= room);
  };
  if (!isFetched && !nodes.some(isComplete)) return 'an answer that leaves out better records';
  return undefined;
}

/** A needle in the encodings in which somebody might write it. */
function encodings(bytes: Uint8Array): Buffer[] {
  const buffer = Buffer.from(bytes);
  const inBase64 = [0, 1, 2].map((before) => {
    const text = Buffer.concat([Buffer.alloc(before), buffer]).toString('base64');
    return Buffer.from(text.slice(Math.ceil((8 * before) / 6), Math.floor((8 * (before + buffer.length)) / 6)));
  });
  return [
    buffer,
    Buffer.from(buffer).reverse(),
    Buffer.from(buffer.toString('hex')),
    ...inBase64,
    Buffer.from([...bytes].join(',')),
  ];
}

/** What must never cross. */
function secretsOf(key: MasterSeed, ids: readonly string[], vectors: readonly Float32Array[]): Buffer[] {
  const seed = key.reveal();
  const needles = [...encodings(seed), ...encodings(seed.subarray(0, 16))];
  needles.push(...encodings(Buffer.from(SECRET_NAME)), ...encodings(Buffer.from(SECRET_NOTE)));
  for (const each of ids) {
    const id = Buffer.from(each, 'hex');
    for (const purpose of ['handles', 'record versions', 'manifest', 'descriptor'])
      needles.push(...encodings(key.deriveKey(purpose, id)));
    for (const epoch of [0, 1, 2])
      needles.push(...encodings(key.deriveKey('seals', Uint8Array.from([...id, epoch, 0, 0, 0]))));
  }
  for (const vector of vectors)
    for (const form of [vector, Float64Array.from(vector)])
      for (let at = 0; at + 4 <= DIMENSION; at += 4) {
        const part = form.subarray(at, at + 4);
        needles.push(Buffer.from(new Uint8Array(part.buffer, part.byteOffset, part.byteLength)));
      }
  return needles;
}

// — the campaign —

export interface CheatingOptions {
  /** How long; or how many calls. */
  readonly seconds?: number;
  readonly calls?: number;
  /** The same seed makes the same calls, and has the store cheat at the same ones. */
  readonly seed: number;
  readonly log?: (line: string) => void;
}

/** True when nothing was wrong. */
export async function cheating({ seconds, calls, seed, log = console.log }: CheatingOptions): Promise<boolean> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-cheating-'));
  const store = await openStore(join(folder, 'gallery'));
  const unheard: unknown[] = [];
  const hear = (error: unknown) => unheard.push(error);
  process.on('unhandledRejection', hear);
  try {
    const campaign = await Campaign.begin(store, folder, seed);
    const until = performance.now() + 1000 * (seconds ?? 0);
    const goesOn = () => (calls === undefined ? performance.now() < until : campaign.calls < calls);
    while (goesOn() && campaign.violations.length === 0) {
      await campaign.round();
      for (const error of unheard.splice(0)) campaign.violations.push(`a rejection that nobody handled: ${error}`);
      if (process.stderr.isTTY)
        process.stderr.write(`\r${campaign.calls} calls, ${campaign.cheats} times cheated, seed ${seed}   `);
    }
    if (process.stderr.isTTY) process.stderr.write('\n');
    campaign.report(log);
    await campaign.close();
    return campaign.violations.length === 0;
  } finally {
    process.off('unhandledRejection', hear);
    await store.close();
    await rm(folder, { recursive: true, force: true });
  }
}

class Campaign {
  readonly #seed: number;
  readonly #key: MasterSeed;
  readonly #liar: Liar;
  readonly #models: readonly Uint8Array[];
  readonly #scores: Scores;
  readonly #shared = new Remembering('memory', new ShortMemory());
  readonly #filed: Remembering;
  readonly #backups = new Map<string, Uint8Array[]>();
  readonly #last: string[] = [];
  readonly #ended = new Map<string, number>();
  #faithful: Client;
  #others: Client[] = [];
  #secrets: Buffer[] = [];
  calls = 0;
  cheats = 0;
  looked = 0;
  accepted = 0;
  resumed = 0;
  healed = 0;
  /** Writes that changed nothing, because of a view that others had overtaken. */
  overtaken = 0;
  /** Answers from a view that the memory was beyond. */
  late = 0;

  private constructor(
    seed: number,
    folder: string,
    key: MasterSeed,
    liar: Liar,
    models: readonly Uint8Array[],
    scores: Scores,
  ) {
    this.#seed = seed;
    this.#key = key;
    this.#liar = liar;
    this.#models = models;
    this.#scores = scores;
    this.#filed = new Remembering('file', new VersionFile(join(folder, 'versions')));
    this.#faithful = new Client('long-lived', this.#shared, liar, key);
  }

  get violations(): string[] {
    return this.#liar.violations;
  }

  static async begin(store: Service, folder: string, seed: number): Promise<Campaign> {
    const key = MasterSeed.generate();
    const liar = new Liar(store, key);
    const training = Float32Array.from(Array.from({ length: 200 }, (_, i) => [...vectorOf(-1 - i)]).flat());
    const fitted = [KEPT, KEPT - 2].map((dimension) =>
      fit('pca', training.slice(), undefined, { inputDimension: DIMENSION, dimension }),
    );
    const models = (await Promise.all(fitted)).map((model) => model.save());
    const scores = new Scores(await Promise.all(models.map((model) => load(model))));
    const campaign = new Campaign(seed, folder, key, liar, models, scores);
    await campaign.#setUp();
    return campaign;
  }

  async #setUp(): Promise<void> {
    const { database } = this.#faithful;
    const options: Record<(typeof NAMES)[number], CollectionOptions> = {
      compact: { dimension: DIMENSION },
      exact: { dimension: DIMENSION, profile: 'exact', metric: this.#seed % 2 === 0 ? 'cosine' : 'euclidean' },
      short: { dimension: DIMENSION, profile: 'exact', compressor: this.#models[0] },
      sums: { dimension: DIMENSION, profile: 'exact', enrolment: 'homomorphic', maxAdditions: 3 },
    };
    for (const name of NAMES) {
      this.#liar.main.set(name, name);
      this.#liar.doing = this.#honestly();
      const collection = await database.createCollection(name, options[name]);
      // More than one block where that does not cost much.
      const count = name === 'compact' ? collection.plan.parameters.n + 30 : 30;
      const isVault = name !== 'sums';
      const people = Array.from({ length: count }, (_, i): [string, Plain] => [idOf(i), plainOf(i, 0, isVault)]);
      this.#liar.doing = this.#honestly(() => new Content(new Map(people)));
      await collection.upsert(people.map(([id, plain]) => ({ id, ...plain })));
      this.#liar.doing = this.#honestly();
      if (name !== 'compact') await collection.optimize();
    }
    const ids = [...new Set([...this.#liar.nodes.values()].map(({ id }) => id))];
    this.#secrets = secretsOf(this.#key, ids, [0, 1, 5, 77].map(vectorOf));
  }

  #honestly(effect?: (content: Content) => Content): Doing {
    return this.#doing(new Dice(0), { probability: 0, effect });
  }

  #doing(dice: Dice, some: Partial<Doing>): Doing {
    return {
      number: this.calls,
      dice,
      probability: 0,
      at: undefined,
      effect: undefined,
      routes: new Map(),
      cheats: [],
      thrown: new Set(),
      isTampered: false,
      calls: 0,
      sent: undefined,
      isSiege: false,
      ...some,
    };
  }

  /** Calls of a store that cheats, then a store that is honest. */
  async round(): Promise<void> {
    for (let i = 0; i < ROUND && this.violations.length === 0; i++) await this.#step();
    if (this.violations.length === 0) await this.#settle();
  }

  async #client(dice: Dice): Promise<Client> {
    for (const gone of this.#others.filter(({ left }) => left <= 0)) await gone.database.close();
    this.#others = this.#others.filter(({ left }) => left > 0);
    if (dice.happens(0.35)) return this.#faithful;
    if (this.#others.length > 0 && dice.happens(0.7)) return dice.of(this.#others);
    const [name, remembering, left] = dice.weighted<[string, Remembering, number]>([
      [5, ['fresh', this.#shared, 1 + dice.below(8)]],
      [2, ['of a file', this.#filed, 1 + dice.below(5)]],
      [1, ['of nothing', new Remembering('none', new ShortMemory()), 1 + dice.below(5)]],
    ]);
    const client = new Client(name, remembering, this.#liar, this.#key, left);
    this.#others.push(client);
    return client;
  }

  async #step(): Promise<void> {
    const number = this.calls;
    const dice = new Dice(this.#seed, number, 1);
    const client = await this.#client(dice);
    client.left--;
    if (this.#besieged.left-- <= 0 && dice.happens(0.01))
      this.#besieged = { name: dice.of(NAMES.filter((name) => name !== 'sums')), left: SIEGE };
    const siege = this.#besieged.left > 0 ? this.#besieged.name : undefined;
    const task = siege ? this.#fetching(dice, siege) : this.#task(dice);
    const storeDice = new Dice(this.#seed, number, 2);
    if (siege) {
      await this.#perform(client, task, this.#doing(storeDice, { isSiege: true }));
      return;
    }
    const mood = storeDice.weighted<Partial<Doing>>([
      [3, {}],
      [4, { at: storeDice.below(6) }],
      [3, { probability: 0.3 }],
      [1, { probability: 1 }],
    ]);
    const routes = await this.#routes(storeDice, task.name);
    await this.#perform(
      client,
      task,
      this.#doing(storeDice, { ...mood, routes, ...(task.effect ? { effect: task.effect } : {}) }),
    );
    await this.#afterwards(storeDice, task.name, routes);
  }

  /** Sometimes the store shows another side under a name. */
  async #routes(dice: Dice, name: string): Promise<Map<string, Route>> {
    const routes = new Map<string, Route>();
    const liar = this.#liar;
    if (!(NAMES as readonly string[]).includes(name) || !dice.happens(0.15)) return routes;
    const forks = (liar.forks.get(name) ?? []).filter((real) => real !== liar.main.get(name));
    const reads = ['getManifest', 'getRecords', 'getLists', 'getBlock', 'search', 'getCollection'];
    const others = NAMES.filter((other) => other !== name).map((other) => liar.main.get(other)!);
    const [kind, route] = await dice.weighted<() => Promise<[string, Route]>>([
      [2, async () => ['a side of its own', { real: await liar.fork(name) }]],
      [2, async () => ['a side that is spoiled', { real: await liar.fork(name), spoils: true }]],
      [forks.length, async () => ['an older side', { real: dice.of(forks) }]],
      [
        forks.length,
        async () => ['an older side in part', { real: dice.of(forks), methods: new Set([dice.of(reads)]) }],
      ],
      [1, async () => ['another collection', { real: dice.of(others) }]],
      [1, async () => ['another collection in part', { real: dice.of(others), methods: new Set([dice.of(reads)]) }]],
    ])();
    if (route.spoils) liar.spoiled.add(route.real);
    routes.set(name, route);
    this.#routeKind = kind;
    return routes;
  }

  #routeKind = '';
  #besieged: { name: string; left: number } = { name: '', left: 0 };

  /** A side that clients have written to may be the one from now on. */
  async #afterwards(dice: Dice, name: string, routes: ReadonlyMap<string, Route>): Promise<void> {
    const liar = this.#liar;
    const real = routes.get(name)?.real;
    const isFork = real !== undefined && liar.forks.get(name)?.includes(real);
    if (isFork && !liar.spoiled.has(real) && dice.happens(0.3)) {
      const before = liar.main.get(name)!;
      liar.main.set(name, real);
      liar.forks.set(name, [...liar.forks.get(name)!.filter((each) => each !== real), before]);
    }
    await liar.forget(name, 2);
  }

  async #nodeOf({ remembering }: Client, name: string): Promise<Node | undefined> {
    const seen = await remembering.memory.read({ gallery: '', name });
    if (!seen || seen.deleted || seen.hash === undefined) return undefined;
    const node = this.#liar.nodes.get(seen.hash);
    if (!node) this.violations.push(`a memory holds a manifest of ${name} that nobody wrote`);
    return node;
  }

  async #perform(client: Client, task: Task, doing: Doing): Promise<void> {
    const liar = this.#liar;
    const { name } = task;
    this.calls++;
    const sent: Uint8Array[] | undefined = doing.number % 7 === 0 ? [] : undefined;
    liar.doing = { ...doing, sent };
    const now = liar.doing;
    const before = await this.#nodeOf(client, name);
    const idBefore = (await client.remembering.memory.read({ gallery: '', name }))?.id;
    if (doing.routes.size > 0) now.cheats.push(`all: ${this.#routeKind}`);
    const nodesBefore = liar.nodes.size;
    const began = performance.now();
    const outcome = await within(task.run(client));
    const took = Math.round(performance.now() - began);
    const { cheats, thrown } = now;
    this.cheats += cheats.length;
    const after = await this.#nodeOf(client, name);
    const seenAfter = await client.remembering.memory.read({ gallery: '', name });
    if (seenAfter?.id !== idBefore) client.remembering.candidates(name).resume();
    const error = 'error' in outcome ? outcome.error : undefined;
    const how = 'error' in outcome ? (error instanceof HersError ? error.code : `${(error as Error)?.name}`) : 'ok';
    this.#last.push(
      `${now.number} ${client.name}: ${task.what} of ${name}, ${how} in ${took} ms${cheats.length > 0 ? `; the store: ${cheats.join(', ')}` : ''}${'error' in outcome ? `; ${(error as Error)?.message}` : ''}`,
    );
    if (this.#last.length > LAST_CALLS) this.#last.shift();
    this.#ended.set(`${task.what} ${how}`, (this.#ended.get(`${task.what} ${how}`) ?? 0) + 1);
    const isPlainAndTampered = !('error' in outcome) && now.isTampered && task.isPlain;
    const ended = 'error' in outcome ? how : isPlainAndTampered ? 'admitted' : 'harmless';
    for (const kind of cheats) {
      const row = liar.tally.get(kind) ?? new Map<string, number>();
      row.set(ended, (row.get(ended) ?? 0) + 1);
      liar.tally.set(kind, row);
    }
    if (sent) this.#search(sent);
    if (
      before &&
      after &&
      !follows(after, before) &&
      after.version - before.version <= HISTORY &&
      !TRUSTING.has(task.what)
    )
      if (after.id === before.id)
        this.violations.push(
          `the memory of ${name} went from version ${before.version} to ${after.version}, which does not follow`,
        );
      else if (task.what !== 'create' && task.what !== 'delete collection')
        this.violations.push(`the memory of ${name} went over to another collection`);
    if ('error' in outcome) {
      this.#judge(error, thrown);
      if (error instanceof HersError) await this.#person(client, name, error, now.dice);
      return;
    }
    if (outcome.value === HUNG) {
      this.violations.push(`a call did not end within ${HANG_MS / 1000} seconds`);
      return;
    }
    const known = client.known.get(name);
    const isReading = READING.has(task.what);
    const from = (isReading && before ? [before] : [known, before]).filter((node) => node !== undefined);
    const nodes = this.#following(from, after);
    const sight: Sight = { nodes, after, isTampered: now.isTampered, isSilent: now.calls === 0 };
    const wrong = await task.check(outcome.value as never, sight);
    if (wrong) this.violations.push(wrong);
    const isScanning = task.what.startsWith('search') || task.what.startsWith('verify');
    if (wrong === undefined && isScanning && before && known && before !== known && follows(before, known)) {
      // Only the older of the two explains it.
      const again = await task.check(outcome.value as never, { ...sight, nodes: this.#following([before], after) });
      if (again) this.late++;
    }
    if ((isReading || liar.nodes.size > nodesBefore) && after) client.known.set(name, after);
  }

  /** Nodes that follow from one of these, the newest first. */
  #following(from: readonly Node[], after: Node | undefined): Node[] {
    const lowest = Math.min(...from.map(({ version }) => version));
    const all = [...this.#liar.nodes.values()].filter(
      (node) =>
        node.version >= lowest &&
        from.some((each) => node.id === each.id && (follows(node, each) || node.version > each.version + HISTORY)),
    );
    return [...new Set([...(after ? [after] : []), ...all.reverse()])];
  }

  /** Errors are ours, or the very ones that the store threw: over a line a client would have made them its own. */
  #judge(error: unknown, thrown: ReadonlySet<unknown>): void {
    const isOurs = error instanceof HersError || thrown.has(error);
    const isAbort = error instanceof Error && error.name === 'AbortError';
    if (!isOurs && !isAbort) this.violations.push(`an error that is none of ours: ${(error as Error)?.stack ?? error}`);
  }

  /** What somebody does who is told so by an error. */
  async #person(client: Client, name: string, error: HersError, dice: Dice): Promise<void> {
    const { remembering } = client;
    if (error.message.includes('does not have the score')) remembering.candidates(name).isStopped = true;
    if (error.message.includes('.resume()') && dice.happens(0.4)) {
      await this.#perform(
        client,
        { what: 'resume', name, run: (c) => this.#resume(c, name), check: () => undefined },
        this.#doing(dice, {}),
      );
    }
    const named = /database\.accept\("([^"]*)"\)/.exec(error.message)?.[1];
    if (named === name && dice.happens(0.3)) {
      this.accepted++;
      const some = dice.happens(0.5) ? {} : { probability: 0.2 };
      await this.#perform(
        client,
        { what: 'accept', name, run: (c) => c.database.accept(name), check: () => undefined },
        this.#doing(dice, some),
      );
      client.known.delete(name);
    }
  }

  async #resume(client: Client, name: string): Promise<void> {
    const collection = await this.#open(client, name);
    // Counted anew before the first set that is shown from now on.
    client.remembering.candidates(name).resume();
    await collection.resume();
    this.resumed++;
  }

  /** Opens a collection, and notes what the client knows since. */
  async #open(client: Client, name: string): Promise<Collection> {
    const collection = await client.database.collection(name);
    if (!client.known.has(name)) {
      const node = await this.#nodeOf(client, name);
      if (node) client.known.set(name, node);
    }
    return collection;
  }

  #search(sent: readonly Uint8Array[]): void {
    this.looked++;
    const all = Buffer.concat(sent);
    for (const needle of this.#secrets)
      if (all.includes(needle)) this.violations.push(`a secret was sent: ${needle.toString('hex')}`);
  }

  #task(dice: Dice): Task {
    const name = dice.weighted([
      [4, NAMES[0]],
      [3, NAMES[1]],
      [3, NAMES[2]],
      [3, NAMES[3]],
    ]);
    const isVault = name !== 'sums';
    const people = (most: number) => [
      ...new Set(Array.from({ length: 1 + dice.below(most) }, () => dice.below(PEOPLE))),
    ];
    const on = (
      what: string,
      run: (collection: Collection) => Promise<unknown>,
      check: Task['check'],
      more: Partial<Task> = {},
    ): Task => ({
      what,
      name,
      run: async (client) => run(await this.#open(client, name)),
      check,
      ...more,
    });
    const probe = this.#probe(dice);
    const searching = (what: string, options: SearchOptions) => this.#searching(what, name, probe, options);
    const few = isVault ? 1 : 0.1;
    const limit = 1 + dice.below(12);
    const exact = name !== 'compact';
    const tasks: [number, () => Task][] = [
      [
        16,
        () => {
          const records = people(6).map((person): [string, Plain] => [
            idOf(person),
            plainOf(person, dice.below(REVISIONS), isVault),
          ]);
          return on(
            'upsert',
            (collection) => collection.upsert(records.map(([id, plain]) => ({ id, ...plain }))),
            ({ written, unchanged }: { written: number; unchanged: number }, sight) => {
              if (written + unchanged !== records.length) return 'an upsert that forgets records';
              return this.#acknowledged(records, sight);
            },
            { effect: (content) => content.with(records) },
          );
        },
      ],
      [
        8,
        () => {
          const ids = people(4).map(idOf);
          const gone = ids.map((id): [string, undefined] => [id, undefined]);
          return on(
            'delete',
            (collection) => collection.delete(ids),
            (count: number, sight) =>
              count > ids.length ? 'more was deleted than asked for' : this.#acknowledged(gone, sight),
            { effect: (content) => content.with(gone) },
          );
        },
      ],
      [12, () => searching('search', { limit })],
      [3, () => searching('search threshold', { limit, threshold: dice.next() - 0.3 })],
      [10 * few, () => searching('search payload', { limit, payload: true })],
      [8 * few, () => searching('search rerank', { limit, rerank: dice.happens(0.5) ? true : limit + dice.below(20) })],
      [3 * few, () => searching('search rerank payload', { limit, rerank: true, payload: true, threshold: -0.5 })],
      [exact ? 4 * few : 0, () => searching('search enough', { limit, rerank: 40, enough: dice.next() })],
      [
        4,
        () => {
          const probes = [probe, this.#probe(dice), this.#probe(dice)];
          const options: SearchOptions = { limit, ...(dice.happens(0.5) ? { payload: true } : {}) };
          return on(
            'searchBatch',
            (collection) => collection.searchBatch(probes, options),
            async (results: SearchResult[], sight) => {
              if (results.length !== probes.length) return 'another number of answers than of questions';
              for (const [i, result] of results.entries()) {
                const wrong = await wrongIn(this.#scores, result, probes[i], options, sight);
                if (wrong) return wrong;
              }
              return undefined;
            },
            { isPlain: !options.payload },
          );
        },
      ],
      [
        4 * few,
        () => {
          const probes = [probe, this.#probe(dice), this.#probe(dice), this.#probe(dice), this.#probe(dice)];
          const options: SearchOptions = { limit, payload: true };
          return on(
            'searches at once',
            async (collection) => {
              const all = await Promise.allSettled(probes.map((each) => collection.search(each, options)));
              const failed = all.filter((each) => each.status === 'rejected');
              for (const { reason } of failed) this.#judge(reason, this.#liar.doing!.thrown);
              // The worst first: somebody has to be told.
              const told =
                failed.find(({ reason }) => String(reason?.message).includes('does not have the score')) ?? failed[0];
              if (told) throw told.reason;
              return all.map((each) => (each as PromiseFulfilledResult<SearchResult>).value);
            },
            async (results: SearchResult[], sight) => {
              for (const [i, result] of results.entries()) {
                const wrong = await wrongIn(this.#scores, result, probes[i], options, sight);
                if (wrong) return wrong;
              }
              return undefined;
            },
          );
        },
      ],
      [
        2 * few,
        () => {
          const afterMs = dice.below(30);
          const options: SearchOptions = { limit, payload: true };
          return on(
            'search that is given up',
            (collection) => {
              const ending = new AbortController();
              setTimeout(() => ending.abort(), afterMs);
              return collection.search(probe, { ...options, signal: ending.signal });
            },
            (result: SearchResult, sight) => wrongIn(this.#scores, result, probe, options, sight),
          );
        },
      ],
      [6, () => this.#verifying(name, idOf(dice.below(PEOPLE)), probe, dice.happens(0.5 * few))],
      [
        6 * few,
        () => {
          const ids = people(8).map(idOf);
          return on(
            'get',
            (collection) => collection.get(ids),
            (records: (Plain & { id: string })[], { nodes }) => {
              const isRight = ({ content }: Node) => {
                const wanted = ids.filter((id) => content.get(id));
                return (
                  wanted.length === records.length &&
                  records.every((record, i) => record.id === wanted[i] && samePlain(record, content.get(record.id)))
                );
              };
              return nodes.some(isRight) ? undefined : 'records that were never so together';
            },
          );
        },
      ],
      [
        3,
        () =>
          on(
            'list',
            (collection) => Array.fromAsync(collection.list()),
            (ids: string[], { nodes }) => {
              const found = new Set(ids);
              const isRight = ({ content }: Node) => {
                const entries = content.entries();
                return entries.length === ids.length && entries.every(([id]) => found.has(id));
              };
              return nodes.some(isRight) ? undefined : 'ids that were never so together';
            },
          ),
      ],
      [
        3,
        () =>
          on(
            'count',
            (collection) => collection.count(),
            (count: number, { nodes }) =>
              nodes.some(({ content }) => content.entries().length === count) ? undefined : 'a count that never was',
          ),
      ],
      [
        5,
        () =>
          on(
            'optimize',
            (collection) => collection.optimize(),
            () => undefined,
          ),
      ],
      [
        3,
        () =>
          on(
            'rotateKey',
            (collection) => collection.rotateKey(),
            () => undefined,
          ),
      ],
      [
        name === 'short' ? 4 : 0,
        () => {
          const model = dice.of([...this.#models, null]);
          return on(
            'reindex',
            (collection) => collection.reindex(model),
            () => undefined,
          );
        },
      ],
      [2, () => this.#describing(name)],
      [1, () => this.#listing()],
      [3, () => this.#scratch(dice)],
      [1, () => this.#copying(name)],
      [2, () => this.#searching('search', COPY, probe, { limit })],
    ];
    return dice.weighted(tasks)();
  }

  #searching(what: string, name: string, probe: Float32Array, options: SearchOptions): Task {
    return {
      what,
      name,
      run: async (client) => (await this.#open(client, name)).search(probe, options),
      check: (result: SearchResult, sight) => wrongIn(this.#scores, result, probe, options, sight),
      isPlain: !options.payload && !options.rerank,
    };
  }

  /** Anything that shows candidates. */
  #fetching(dice: Dice, name: string): Task {
    const probe = this.#probe(dice);
    const limit = 1 + dice.below(10);
    if (dice.happens(0.2)) return this.#verifying(name, idOf(dice.below(PEOPLE)), probe, true);
    return dice.happens(0.5)
      ? this.#searching('search payload', name, probe, { limit, payload: true })
      : this.#searching('search rerank', name, probe, { limit, rerank: true });
  }

  #verifying(name: string, id: string, probe: Float32Array, rerank: boolean): Task {
    return {
      what: rerank ? 'verify rerank' : 'verify',
      name,
      run: async (client) => (await this.#open(client, name)).verify(id, probe, { rerank }),
      check: (result: { score: number; scoreOrigin: Match['scoreOrigin'] }, sight) =>
        this.#verified({ id, ...result }, probe, rerank, sight),
      isPlain: !rerank,
    };
  }

  /** Near somebody, or anywhere. */
  #probe(dice: Dice): Float32Array {
    const near = vectorOf(dice.below(PEOPLE * REVISIONS));
    const away = vectorOf(1_000_000 + dice.below(1000));
    const distance = dice.next();
    const probe = near.map((x, i) => x + distance * away[i]);
    const norm = Math.hypot(...probe);
    return probe.map((x) => x / norm);
  }

  /** Whether a write that was acknowledged is there. */
  #acknowledged(
    changes: readonly (readonly [string, Plain | undefined])[],
    { nodes, after, isSilent }: Sight,
  ): string | undefined {
    const isIn = ({ content }: Node) => changes.every(([id, plain]) => samePlain(content.get(id), plain));
    if (after && isIn(after)) return undefined;
    // A client that finds nothing to do in what it knows does not ask whether that is still so.
    if (!isSilent && !nodes.some(isIn)) return 'a write was acknowledged that nobody was told of';
    this.overtaken++;
    return undefined;
  }

  async #verified(
    match: Match,
    probe: Float32Array,
    rerank: boolean,
    { nodes, isTampered }: Sight,
  ): Promise<string | undefined> {
    for (const { world, content } of nodes) {
      const record = content.get(match.id);
      if (record && ((!rerank && isTampered) || (await this.#scores.fits(world, match, record, probe))))
        return undefined;
    }
    return `a verification that is wrong: ${JSON.stringify(match)}`;
  }

  #describing(name: string): Task {
    return {
      what: 'describe',
      name,
      run: ({ database }) => database.describe(name),
      check: ({ records }: { records: number }, { nodes }) =>
        nodes.length === 0 || nodes.some(({ content }) => content.entries().length === records)
          ? undefined
          : 'a description with another number of records',
    };
  }

  #listing(): Task {
    return {
      what: 'listCollections',
      name: SCRATCH,
      run: ({ database }) => database.listCollections(),
      check: () => undefined,
    };
  }

  /** A collection that comes and goes. */
  #scratch(dice: Dice): Task {
    const person = dice.below(PEOPLE);
    const record: [string, Plain] = [idOf(person), plainOf(person, dice.below(REVISIONS), true)];
    return dice.weighted<Task>([
      [
        2,
        {
          what: 'create',
          name: SCRATCH,
          run: ({ database, known }) => {
            known.delete(SCRATCH);
            return database.createCollection(SCRATCH, { dimension: DIMENSION });
          },
          check: () => undefined,
        },
      ],
      [
        1,
        {
          what: 'delete collection',
          name: SCRATCH,
          run: ({ database, known }) => {
            known.delete(SCRATCH);
            return database.deleteCollection(SCRATCH);
          },
          check: () => undefined,
        },
      ],
      [
        3,
        {
          what: 'upsert',
          name: SCRATCH,
          run: async (client) => (await this.#open(client, SCRATCH)).upsert({ id: record[0], ...record[1] }),
          effect: (content) => content.with([record]),
          check: (_: never, sight) => this.#acknowledged([record], sight),
        },
      ],
    ]);
  }

  /** A snapshot, restored beside its original. */
  #copying(name: string): Task {
    return {
      what: 'restore',
      name: COPY,
      run: async (client) => {
        const pieces = await Array.fromAsync((await this.#open(client, name)).snapshot());
        await client.database.deleteCollection(COPY).catch((error) => {
          if (!(error instanceof HersError && error.code === 'NOT_FOUND')) throw error;
        });
        client.known.delete(COPY);
        return client.database.restore(COPY, pieces, { acceptOlder: true });
      },
      check: () => undefined,
    };
  }

  /** The store is honest: what is there is found by everybody, and who was shown something else says so first. */
  async #settle(): Promise<void> {
    const liar = this.#liar;
    for (const client of this.#others.splice(0)) await client.database.close();
    liar.doing = this.#honestly();
    await this.#heal();
    const clients = [
      this.#faithful,
      new Client('fresh', this.#shared, liar, this.#key),
      new Client('of a file', this.#filed, liar, this.#key),
    ];
    for (const client of clients) for (const name of NAMES) await this.#found(client, name);
    for (const client of clients.slice(1)) await client.database.close();
    if (this.calls % (4 * ROUND) === 0) {
      await this.#faithful.database.close();
      this.#faithful = new Client('long-lived', this.#shared, liar, this.#key);
    }
    for (const name of NAMES) this.#backups.set(name, await Array.fromAsync(liar.store.snapshot(liar.main.get(name)!)));
  }

  /** A write onto another history leaves a manifest that names what is not there: such a side is taken back to what it was. */
  async #heal(): Promise<void> {
    const liar = this.#liar;
    for (const name of NAMES) {
      const real = liar.main.get(name)!;
      if (!liar.spoiled.has(real)) continue;
      this.healed++;
      const healed = `${name}.healed${this.calls}`;
      await liar.store.restore(healed, this.#backups.get(name)!);
      const { manifest } = await liar.store.getManifest(healed);
      liar.heads.set(healed, liar.nodes.get(hashOf(manifest))!);
      liar.main.set(name, healed);
      await liar.drop(name, real);
    }
  }

  async #found(client: Client, name: string): Promise<void> {
    const liar = this.#liar;
    const head = liar.heads.get(liar.main.get(name)!)!;
    const say = (what: string) =>
      this.violations.push(`${what}, by the client ${client.name} in ${name}, with an honest store`);
    const before = await this.#nodeOf(client, name);
    const isFitting = !before || (before.id === head.id && follows(head, before));
    const first = await within((async () => (await this.#open(client, name)).count())());
    if ('error' in first) {
      const error = first.error as Error;
      if (!(error instanceof HersError)) return void say(`an error that is none of ours: ${error.stack}`);
      if (isFitting) return void say(`refused although it fits (${error.message})`);
      if (!error.message.includes('.accept('))
        return void say(`refused with a sentence that does not help (${error.message})`);
      await client.database.accept(name);
      this.accepted++;
    } else if (!isFitting && head.version - before.version <= HISTORY)
      say('a history that does not follow was not noticed');
    client.known.set(name, head);
    try {
      const collection = await client.database.collection(name);
      client.remembering.candidates(name).resume();
      await collection.resume();
      const entries = head.content.entries();
      if ((await collection.count()) !== entries.length) return void say('another count than what was acknowledged');
      const ids = new Set(await Array.fromAsync(collection.list()));
      const missing = entries.find(([id]) => !ids.has(id));
      if (missing) return void say(`${missing[0]} was acknowledged and is gone`);
      const dice = new Dice(this.#seed, this.calls, 3);
      const some = Array.from({ length: 3 }, () => dice.of(entries));
      const all: SearchOptions[] = head.world.isVault ? [{}, { payload: true }, { rerank: true, payload: true }] : [{}];
      for (const [i, options] of all.entries()) {
        const [id, plain] = some[i];
        const result = await collection.search(plain.vector, { limit: 5, ...options });
        const sight = { nodes: [head], after: head, isTampered: false, isSilent: false };
        const wrong = await wrongIn(this.#scores, result, plain.vector, { limit: 5, ...options }, sight);
        if (wrong) say(wrong);
        // Through a compressor, and among doubles, somebody else may be as good.
        if (!result.matches.some((match) => match.id === id) && name !== 'short')
          say(`${id} is not found by its own vector`);
      }
      if (!head.world.isVault) return;
      const got = await collection.get(entries.slice(-PEOPLE).map(([id]) => id));
      if (got.length !== Math.min(PEOPLE, entries.length)) say('records are missing');
      for (const record of got)
        if (!samePlain(record, head.content.get(record.id))) say(`${record.id} is not as it was acknowledged`);
    } catch (error) {
      say(`an error: ${(error as Error).stack}`);
    }
  }

  report(log: (line: string) => void): void {
    const { tally, searches, fetches, mostOpen, served, grafts } = this.#liar;
    const rows = [['what the store did', 'times', 'how it ended']];
    for (const [kind, ends] of [...tally].sort(([a], [b]) => (a < b ? -1 : 1))) {
      const all = [...ends].sort(([, a], [, b]) => b - a);
      const sum = all.reduce((total, [, count]) => total + count, 0);
      rows.push([kind, String(sum), all.map(([end, count]) => `${end} ${count}`).join(', ')]);
    }
    log(columns(rows, new Set([1])));
    const ends = [...this.#ended].sort(([a], [b]) => (a < b ? -1 : 1)).map(([what, count]) => `${what} ${count}`);
    log(`\nhow calls ended: ${ends.join(', ')}`);
    log(
      `\n${this.calls} calls of clients, ${served} of the store, which cheated ${this.cheats} times; ${searches} searches, ${fetches} times candidates were asked for, ${mostOpen} sets at most not verified at a time; ` +
        `a person accepted ${this.accepted} and resumed ${this.resumed} times; what ${this.looked} calls sent was searched for secrets`,
    );
    log(
      `${this.overtaken} writes found nothing to do in a view that others had overtaken, ${this.late} answers came from such a view, ${grafts} writes were made onto another history (${this.healed} times what they spoiled was taken back)`,
    );
    log(`seed ${this.#seed}`);
    if (this.violations.length === 0) log('Nothing wrong came without an error.');
    else {
      log('\nNOT as it should be:');
      for (const violation of this.violations.slice(0, 10)) log(`  ${violation}`);
      log(`\nThe last calls; --seed ${this.#seed} makes them again:`);
      for (const line of this.#last) log(`  ${line}`);
    }
  }

  async close(): Promise<void> {
    for (const { database } of [this.#faithful, ...this.#others]) await database.close();
  }
}

const HUNG = Symbol('hung');

/** What came of it, or that nothing did in time. */
async function within(work: Promise<unknown>): Promise<{ value: unknown } | { error: unknown }> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<typeof HUNG>((resolve) => {
    timer = setTimeout(() => resolve(HUNG), HANG_MS);
  });
  try {
    return { value: await Promise.race([work, late]) };
  } catch (error) {
    return { error };
  } finally {
    clearTimeout(timer);
  }
}
