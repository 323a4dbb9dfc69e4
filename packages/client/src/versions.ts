// The last version seen of every collection, kept beside the key: a store that rolls back is caught.

import { hex } from './bytes.ts';

/** Where that is remembered. Without one it is remembered for as long as the connection lasts, and a first contact trusts what it is shown. */
export interface VersionMemory {
  /** `collection` is what `rememberedAs` makes of it. */
  read(collection: string): Promise<number | undefined>;
  write(collection: string, version: number): Promise<void>;
}

/** By id and name: a snapshot restored beside its original has the same id, and from then on versions of its own. */
export function rememberedAs(id: Uint8Array, name: string): string {
  return `${hex(id)} ${name}`;
}

export class ShortMemory implements VersionMemory {
  readonly #seen = new Map<string, number>();

  async read(collection: string): Promise<number | undefined> {
    return this.#seen.get(collection);
  }

  async write(collection: string, version: number): Promise<void> {
    this.#seen.set(collection, version);
  }
}
