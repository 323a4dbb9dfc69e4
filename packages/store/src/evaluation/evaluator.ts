// Evaluation keys that are in use, each set in a thread of its own: preparing them takes a second,
// and expanding a query more than the event loop should wait for. A thread that nobody has used for
// a while ends, and so does the one that was used least recently when there are too many.

import { Worker } from 'node:worker_threads';
import { HersError } from '@hers/scheme';
import { type OpenRows, peekDeviceEvaluation } from '@hers/scheme/open';
import { isShared, LIST_ID_BYTES, PARTITION_BYTES } from '@hers/service';
import { checkBytes, hex } from '../base/bytes.ts';
import { Thread } from '../base/thread.ts';

export type ReadLists = (ids: readonly Uint8Array[], signal: AbortSignal) => AsyncIterable<Uint8Array>;

export interface KeyLists {
  readonly id: Uint8Array;
  readonly ending: AbortSignal;
  has(list: Uint8Array): boolean;
  readonly read: ReadLists;
}

/** A thread that has nothing to do ends after so long. */
const IDLE_MS = 60_000;
/** Sets of keys in memory: at most 83 MB each. */
const MAX_LOADED = 8;
/** Pieces of evaluation keys of one collection, and their bytes. */
const MAX_PIECES = 1024;
const MAX_BYTES = 2 ** 27;
/** Devices with keys of their own whose queries one search may have, and bytes of their pieces. */
const MAX_DEVICES = 64;
const MAX_DEVICE_BYTES = 2 ** 24;

/** To a thread. Queries are numbered by whoever asks, until they are forgotten. */
export type EvaluationRequest =
  | { readonly kind: 'piece'; readonly bytes: Uint8Array }
  | { readonly kind: 'prepare' }
  | {
      readonly kind: 'expand';
      readonly number: number;
      readonly query: Uint8Array;
      /** The piece of its device, if that has a key of its own. */
      readonly device: Uint8Array | undefined;
    }
  | {
      readonly kind: 'pack';
      readonly number: number;
      readonly responses: Uint8Array;
      readonly lengths: readonly number[];
    }
  | { readonly kind: 'forget'; readonly number: number };

/** One set of evaluation keys, prepared, in a thread. */
export class LoadedKeys {
  /** Of the prepared keys; known once it is ready. */
  bytes = 0;
  readonly #thread: Thread;
  #queries = 0;

  constructor(lost: () => void) {
    const reason = new HersError('UNAVAILABLE', 'the thread with the evaluation keys has ended');
    const worker = new Worker(new URL('./evaluation-worker.ts', import.meta.url), { execArgv: [] });
    this.#thread = new Thread(worker, lost, reason);
  }

  async #ask<T>(request: EvaluationRequest, transfer: ArrayBuffer[] = []): Promise<T> {
    try {
      return await this.#thread.ask<T>(request, { transfer });
    } catch (error) {
      // The lists are what was put there: their hashes fit.
      throw error instanceof HersError && error.code === 'DAMAGED' ? new HersError('MALFORMED', error.message) : error;
    }
  }

  /** Gives it the pieces, checked against their hashes by whoever reads them. */
  async prepare(pieces: AsyncIterable<Uint8Array>): Promise<void> {
    let total = 0;
    for await (const piece of pieces) {
      total += piece.length;
      if (total > MAX_BYTES)
        throw new HersError('TOO_LARGE', `the evaluation keys of a collection have at most ${MAX_BYTES} bytes`);
      const bytes = new Uint8Array(isShared(piece) ? piece.subarray(PARTITION_BYTES) : piece);
      await this.#ask({ kind: 'piece', bytes }, [bytes.buffer]);
    }
    this.bytes = await this.#ask({ kind: 'prepare' });
  }

  /**
   * Expands an encoded query, with the piece of its device if that has a key of its own. The number
   * it returns is for `pack` and `forget`.
   */
  async expand(query: Uint8Array, device?: Uint8Array): Promise<{ readonly number: number; readonly rows: OpenRows }> {
    const number = ++this.#queries;
    const rows = await this.#ask<OpenRows>({ kind: 'expand', number, query: new Uint8Array(query), device });
    return { number, rows };
  }

  /** The encoded response that these responses of a kernel are packed into. Copies them at once. */
  pack(number: number, responses: readonly Uint8Array[]): Promise<Uint8Array> {
    const bytes = new Uint8Array(responses.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const response of responses) {
      bytes.set(response, at);
      at += response.length;
    }
    const lengths = responses.map(({ length }) => length);
    return this.#ask({ kind: 'pack', number, responses: bytes, lengths }, [bytes.buffer]);
  }

  forget(number: number): void {
    this.#ask({ kind: 'forget', number }).catch(() => {});
  }

  close(): Promise<void> {
    return this.#thread.close();
  }
}

interface Entry {
  readonly keys: LoadedKeys;
  readonly ready: Promise<void>;
  users: number;
  timer: NodeJS.Timeout | undefined;
}

/** What is told when keys have come into memory, or, negative, are gone: so many bytes. */
export type OnLoaded = (bytes: number) => void;

/** The evaluation keys of a folder that are in memory. */
export class Evaluators {
  /** Told of keys that come and go: a node has two servers. */
  readonly onLoaded: Set<OnLoaded> = new Set();
  readonly #idleMs: number;
  /** By the collection and the ids of their lists; the one that was used last comes last. */
  readonly #entries = new Map<string, Entry>();

  constructor(idleMs: number = IDLE_MS) {
    this.#idleMs = idleMs;
  }

  get loaded(): { readonly sets: number; readonly bytes: number } {
    const all = [...this.#entries.values()];
    return { sets: all.length, bytes: all.reduce((sum, { keys }) => sum + keys.bytes, 0) };
  }

  /**
   * Calls `use` with the keys in these lists of a collection, which are loaded unless they are
   * there. They stay there as long as it takes, and a while longer.
   */
  async *using<T>(
    collection: KeyLists,
    lists: readonly Uint8Array[],
    signal: AbortSignal,
    use: (keys: LoadedKeys) => AsyncGenerator<T>,
  ): AsyncGenerator<T> {
    if (lists.length === 0 || lists.length > MAX_PIECES)
      throw new HersError('INVALID_ARGUMENT', `a search names from 1 to ${MAX_PIECES} lists of evaluation keys`);
    for (const id of lists) checkBytes(id, 'the id of a list', LIST_ID_BYTES);
    const name = [hex(collection.id), ...lists.map(hex)].join(' ');
    const dropped = lists.find((id) => !collection.has(id));
    if (dropped) {
      const old = this.#entries.get(name);
      if (old?.users === 0) this.#unload(name, old);
      throw new HersError('NOT_FOUND', `there is no list ${hex(dropped)} in this collection`);
    }
    const entry = this.#entries.get(name) ?? this.#load(name, collection, lists);
    this.#entries.delete(name);
    this.#entries.set(name, entry);
    clearTimeout(entry.timer);
    entry.users++;
    try {
      await ended(entry.ready, signal);
      yield* use(entry.keys);
    } finally {
      entry.users--;
      if (entry.users === 0 && this.#entries.get(name) === entry)
        entry.timer = setTimeout(() => this.#unload(name, entry), this.#idleMs).unref();
    }
  }

  #load(name: string, { read, ending }: KeyLists, lists: readonly Uint8Array[]): Entry {
    this.#makeRoom();
    const keys = new LoadedKeys(() => this.#unload(name, entry));
    // Whoever asked first may leave before it is ready.
    const ready = keys.prepare(read(lists, ending));
    const entry: Entry = { keys, ready, users: 0, timer: undefined };
    this.#entries.set(name, entry);
    ready.then(
      () => {
        if (this.#entries.get(name) === entry) this.#tell(keys.bytes);
      },
      () => this.#unload(name, entry),
    );
    return entry;
  }

  #tell(bytes: number): void {
    for (const onLoaded of this.onLoaded) onLoaded(bytes);
  }

  #makeRoom(): void {
    for (const [name, entry] of this.#entries) {
      if (this.#entries.size < MAX_LOADED) return;
      if (entry.users === 0) this.#unload(name, entry);
    }
    if (this.#entries.size >= MAX_LOADED)
      throw new HersError(
        'OVERLOADED',
        `${MAX_LOADED} collections with open queries are being searched already; try again in a moment`,
      );
  }

  #unload(name: string, entry: Entry): void {
    clearTimeout(entry.timer);
    if (this.#entries.get(name) !== entry) return;
    this.#entries.delete(name);
    if (entry.keys.bytes > 0) this.#tell(-entry.keys.bytes);
    void entry.keys.close();
  }

  async close(): Promise<void> {
    const all = [...this.#entries.entries()];
    for (const [name, entry] of all) this.#unload(name, entry);
    await Promise.all(all.map(([, { keys }]) => keys.close()));
  }
}

/** The pieces of devices with keys of their own, by the key and number that they are for. */
export type DevicePieces = ReadonlyMap<string, Uint8Array>;

export const deviceName = (keyId: Uint8Array, device: number): string => `${hex(keyId)} ${device}`;

/**
 * Reads the pieces of devices in these lists of a collection. They are not kept: one is read and
 * prepared sooner than a query is expanded, and a device that is revoked leaves nothing behind.
 */
export async function readDevicePieces(
  { read }: KeyLists,
  lists: readonly Uint8Array[],
  signal: AbortSignal,
): Promise<DevicePieces> {
  const pieces = new Map<string, Uint8Array>();
  if (lists.length > MAX_DEVICES)
    throw new HersError('INVALID_ARGUMENT', `a search names keys of at most ${MAX_DEVICES} devices`);
  let total = 0;
  for await (const list of read(lists, signal)) {
    total += list.length;
    if (total > MAX_DEVICE_BYTES)
      throw new HersError('TOO_LARGE', `the keys of the devices of a search have at most ${MAX_DEVICE_BYTES} bytes`);
    const piece = isShared(list) ? list.subarray(PARTITION_BYTES) : list;
    const { keyId, device } = peekDeviceEvaluation(piece);
    pieces.set(deviceName(keyId, device), piece);
  }
  return pieces;
}

/** The promise, or the signal's reason if that is sooner. */
async function ended(promise: Promise<void>, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const stop = () => reject(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  try {
    await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
