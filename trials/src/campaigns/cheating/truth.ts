// The truth: what collections hold, as the clients have written it.

import { createDecipheriv, createHash } from 'node:crypto';
import type { CollectionOptions, MasterSeed, Payload, Plan } from '@hers/client';
import { Dice } from './dice.ts';

export const DIMENSION = 16;
/** Ids that are written repeatedly. A collection may have more, which stay. */
export const PEOPLE = 32;
export const REVISIONS = 3;
/** The collections. `strong` is compact with checksum canaries; the other two are exact. */
export const NAMES = ['compact', 'exact', 'short', 'strong'] as const;
export const SCRATCH = 'scratch';
export const COPY = 'copy';

export interface Plain {
  readonly vector: Float32Array;
  readonly payload?: Payload;
}

export class Content {
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

export interface World {
  readonly name: string;
  readonly plan: Plan;
  /** How the plan for an index of this dimension is asked for. */
  readonly options: CollectionOptions;
}

export interface HistoryNode {
  readonly world: World;
  readonly id: string;
  readonly version: number;
  readonly hash: string;
  readonly parent: HistoryNode | undefined;
  readonly content: Content;
}

export function follows(node: HistoryNode, from: HistoryNode): boolean {
  let at: HistoryNode | undefined = node;
  while (at && at.version > from.version) at = at.parent;
  return at === from;
}

export const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex');
export const hashOf = (manifest: Uint8Array): string =>
  createHash('sha256').update(manifest).digest('hex').slice(0, 32);

/** Version and predecessor, as a sealed manifest names them (client/src/formats/manifest.ts). */
export function openManifest(
  key: MasterSeed,
  id: Uint8Array,
  version: number,
  sealed: Uint8Array,
): { before?: string } {
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

export function vectorOf(number: number): Float32Array {
  const dice = new Dice(number, 7);
  const out = Float32Array.from({ length: DIMENSION }, () => 2 * dice.next() - 1);
  const norm = Math.hypot(...out);
  return out.map((x) => x / norm);
}

export const SECRET_NAME = 'a-very-private-person';
export const SECRET_NOTE = 'a private note about';
export const idOf = (person: number) => `${SECRET_NAME}-${person}`;
export const plainOf = (person: number, revision: number): Plain => ({
  vector: vectorOf(person * REVISIONS + revision),
  ...(person % 3 > 0 ? { payload: { note: `${SECRET_NOTE} ${person}`, revision } } : {}),
});
