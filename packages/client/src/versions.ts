// The last version seen of every collection, kept beside the key: a store that rolls back is caught.

/** Where that is remembered. Without one it is remembered for as long as the connection lasts, and a first contact trusts what it is shown. */
export interface VersionMemory {
  read(collectionId: string): Promise<number | undefined>;
  write(collectionId: string, version: number): Promise<void>;
}

export class ShortMemory implements VersionMemory {
  readonly #seen = new Map<string, number>();

  async read(collectionId: string): Promise<number | undefined> {
    return this.#seen.get(collectionId);
  }

  async write(collectionId: string, version: number): Promise<void> {
    this.#seen.set(collectionId, version);
  }
}
