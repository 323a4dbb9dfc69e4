// The clients, and what they must never send.

import { Database, type MasterSeed, type VersionMemory } from '@hers/client';
import { encodings } from '@hers/client/testing';
import { Candidates } from './candidates.ts';
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
