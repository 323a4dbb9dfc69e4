// The clients, and what they must never send.

import { Database, type MasterSeed, type VersionMemory } from '@hers/client';
import { encodings } from '@hers/client/testing';
import type { Liar } from './liar.ts';
import { DIMENSION, type HistoryNode, SECRET_NAME, SECRET_NOTE } from './truth.ts';

/** A memory, what the store has seen of it, and its name in reports. */
export class Remembering {
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

export class Client {
  readonly name: string;
  readonly remembering: Remembering;
  readonly database: Database;
  /** By collection, the newest node that this client has certainly opened. */
  readonly known: Map<string, HistoryNode> = new Map();
  /** Calls until it is closed. */
  left: number;

  constructor(
    name: string,
    remembering: Remembering,
    liar: Liar,
    key: MasterSeed,
    left: number = Number.POSITIVE_INFINITY,
  ) {
    this.name = name;
    this.remembering = remembering;
    this.left = left;
    const service = liar.service((collection) => remembering.candidates(collection));
    this.database = new Database(service, { key, versions: remembering.memory, threads: 1 });
  }
}

/** What must never cross. */
export function secretsOf(key: MasterSeed, ids: readonly string[], vectors: readonly Float32Array[]): Buffer[] {
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

// The candidate sets that a store has seen, counted by its requests.

/** Candidate sets that a store may see before it is verified. */
const MOST_UNVERIFIED = 3;

/**
 * The sets of one collection that the clients of one memory have shown to the store, and that it
 * has not proved.
 */
export class Candidates {
  /** By their sorted handles, with the call that requested them last. */
  readonly #open = new Map<string, number>();
  /** Shown before a resume: another client may not know of it, and request them again. */
  readonly #past = new Set<string>();
  isStopped = false;
  most = 0;

  /**
   * The set that is meant: the same call may request it again, without records that were deleted in
   * the meantime.
   */
  #meant(handles: readonly string[], call: number): string {
    const exactly = handles.toSorted().join(' ');
    if (this.#open.has(exactly) || this.#past.has(exactly)) return exactly;
    const isLarger = ([set, last]: [string, number]) =>
      last === call && handles.every((handle) => set.includes(handle));
    return [...this.#open].find(isLarger)?.[0] ?? exactly;
  }

  /** A set is requested; returns what is wrong with that. */
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

  /**
   * The store returned these records unaltered. If their scores are wrong, the client stops and
   * reports it.
   */
  given(handles: readonly string[], call: number): void {
    this.#open.delete(this.#meant(handles, call));
  }

  resume(): void {
    for (const set of this.#open.keys()) this.#past.add(set);
    this.#open.clear();
    this.isStopped = false;
  }
}
