// The last versions seen, in a file of their own beside the key file.

import { randomBytes } from 'node:crypto';
import { open, readFile, rename, unlink } from 'node:fs/promises';
import { hex } from './bytes.ts';
import type { VersionMemory } from './versions.ts';

export class VersionFile implements VersionMemory {
  readonly #path: string;
  /** What this process has seen; the file may be shared with others that use the same key for other galleries. */
  readonly #own = new Map<string, number>();
  #written: Promise<Map<string, number>> | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(path: string) {
    this.#path = path;
  }

  /** Throws SyntaxError where the file holds something else. */
  async #read(): Promise<Map<string, number>> {
    let text: string;
    try {
      text = await readFile(this.#path, 'utf8');
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      return new Map();
    }
    const content: unknown = JSON.parse(text);
    const object = typeof content === 'object' && content !== null && !Array.isArray(content);
    if (!object || !Object.values(content).every(Number.isSafeInteger))
      throw new SyntaxError(`${this.#path} does not hold versions`);
    return new Map(Object.entries(content));
  }

  async read(collection: string): Promise<number | undefined> {
    this.#written ??= this.#read();
    return this.#own.get(collection) ?? (await this.#written).get(collection);
  }

  /** The highest version seen of a collection under any name. */
  async highest(id: Uint8Array): Promise<number | undefined> {
    const versions = [...(await this.#read()), ...this.#own].filter(([collection]) => collection.startsWith(hex(id)));
    return versions.length === 0 ? undefined : Math.max(...versions.map(([, version]) => version));
  }

  /** Written to a temporary file and renamed: a crash leaves the old versions or the new ones. */
  async write(collection: string, version: number): Promise<void> {
    this.#own.set(collection, version);
    this.#writing = this.#writing.catch(() => {}).then(() => this.#replace());
    return this.#writing;
  }

  async #replace(): Promise<void> {
    const versions = new Map([...(await this.#read()), ...this.#own]);
    const temporary = `${this.#path}.${randomBytes(6).toString('hex')}.tmp`;
    const file = await open(temporary, 'wx', 0o600);
    try {
      await file.writeFile(JSON.stringify(Object.fromEntries(versions)));
      await file.datasync();
      await file.close();
      await rename(temporary, this.#path);
    } catch (error) {
      await file.close().catch(() => {});
      await unlink(temporary).catch(() => {});
      throw error;
    }
  }
}
