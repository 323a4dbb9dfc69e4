// The last versions seen, in a file of their own beside the key file.

import { open, readFile, rename } from 'node:fs/promises';
import type { VersionMemory } from './versions.ts';

export class VersionFile implements VersionMemory {
  readonly #path: string;
  #versions: Map<string, number> | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(path: string) {
    this.#path = path;
  }

  async #load(): Promise<Map<string, number>> {
    if (!this.#versions) {
      try {
        this.#versions = new Map(Object.entries(JSON.parse(await readFile(this.#path, 'utf8'))));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
        this.#versions = new Map();
      }
    }
    return this.#versions;
  }

  async read(collectionId: string): Promise<number | undefined> {
    return (await this.#load()).get(collectionId);
  }

  /** Written to a temporary file and renamed: a crash leaves the old versions or the new ones. */
  async write(collectionId: string, version: number): Promise<void> {
    const versions = await this.#load();
    versions.set(collectionId, version);
    this.#writing = this.#writing
      .catch(() => {})
      .then(async () => {
        const temporary = `${this.#path}.tmp`;
        const file = await open(temporary, 'w', 0o600);
        try {
          await file.writeFile(JSON.stringify(Object.fromEntries(versions)));
        } finally {
          await file.close();
        }
        await rename(temporary, this.#path);
      });
    return this.#writing;
  }
}
