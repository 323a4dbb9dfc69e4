// The collections of an open folder. If another process writes to the folder, they follow it: its
// commits are taken over before each operation, and files that it moves in the meantime are read
// again.

import { type CallOptions, eitherSignal, HersError } from '@hers/service';
import { damaged, storageError } from './base/storage-errors.ts';
import type { CollectionRow } from './catalogue/catalogue.ts';
import { ReadableCatalogue } from './catalogue/catalogue-reader.ts';
import type { WritableCatalogue } from './catalogue/catalogue-writer.ts';
import { Collection, type Folder, noSuchCollection } from './collection.ts';
import { PinnedDisk } from './files/disk.ts';
import { CATALOGUE } from './files/layout.ts';
import { Upkeep } from './upkeep.ts';

export interface OpenCollection {
  readonly collection: Collection;
  readonly upkeep: Upkeep;
}

export interface OpenCollectionsOptions {
  readonly closing: AbortSignal;
  readonly quietMs: number | undefined;
  readonly report: (error: unknown) => void;
}

type MakeStream<T> = (collection: Collection, signal: AbortSignal) => AsyncIterable<T>;

/** A statement that does not match the tables. */
const SQLITE_ERROR = 1;

export class OpenCollections {
  readonly folder: Folder;
  readonly #options: OpenCollectionsOptions;
  readonly #open = new Map<string, OpenCollection>();
  /** Collections whose part of the catalogue is damaged. */
  readonly #damaged = new Map<string, CollectionRow>();
  #reported: HersError | undefined;
  /** Increases with every change of another process that was taken over. */
  #generation = 0;

  constructor(shared: Omit<Folder, 'refresh'>, options: OpenCollectionsOptions) {
    this.folder = { ...shared, refresh: () => this.refresh() };
    this.#options = options;
  }

  /**
   * Opens the collections of a folder that this process writes. Returns the rows of those without a
   * name.
   */
  load(catalogue: WritableCatalogue): CollectionRow[] {
    const nameless: CollectionRow[] = [];
    for (const row of catalogue.collections()) {
      if (row.name === null) nameless.push(row);
      else if (catalogue.damageOf(row.number)) this.#damaged.set(row.name, row);
      else this.add(new Collection(this.folder, row));
    }
    return nameless;
  }

  /** Opens the collections of a folder that another process may write, as of one commit. */
  look(catalogue: ReadableCatalogue): void {
    catalogue.atOnce(() => {
      const rows = catalogue.collections().filter(({ name }) => name !== null);
      const numbers = new Set(rows.map(({ number }) => number));
      this.#damaged.clear();
      for (const [name, { collection }] of this.#open) {
        if (numbers.has(collection.number) && !catalogue.damageOf(collection.number)) continue;
        this.#open.delete(name);
        collection.ending.abort(noSuchCollection(name));
        collection.letGo();
      }
      for (const row of rows) {
        const known = this.#open.get(row.name!);
        if (catalogue.damageOf(row.number)) this.#damaged.set(row.name!, row);
        else if (known) known.collection.refresh();
        else this.add(new Collection(this.folder, row));
      }
    });
    const damage = catalogue.damageOf();
    if (damage && damage !== this.#reported) this.#options.report((this.#reported = damage));
  }

  /** Takes over commits of another process; returns whether there were any. */
  refresh(): boolean {
    const { catalogue } = this.folder;
    if (!(catalogue instanceof ReadableCatalogue)) return false;
    try {
      if (!catalogue.hasChanged()) return false;
      this.#generation++;
      this.look(catalogue);
      return true;
    } catch (error) {
      throw storageError(error, CATALOGUE);
    }
  }

  add(collection: Collection): OpenCollection {
    const { report, quietMs } = this.#options;
    const open = { collection, upkeep: new Upkeep(collection, report, quietMs) };
    this.#open.set(collection.name, open);
    return open;
  }

  delete(name: string): void {
    this.#open.delete(name);
  }

  has(name: string): boolean {
    return this.#open.has(name) || this.#damaged.has(name);
  }

  get(name: string): OpenCollection {
    this.#options.closing.throwIfAborted();
    this.refresh();
    const open = this.#open.get(name);
    if (open) return open;
    const row = this.#damaged.get(name);
    throw row ? this.folder.catalogue.damageOf(row.number) : noSuchCollection(name);
  }

  all(): Collection[] {
    return [...this.#open.values()].map(({ collection }) => collection);
  }

  stopUpkeep(): void {
    for (const { upkeep } of this.#open.values()) upkeep.stop();
  }

  /** Collections that cannot be opened, because their part of the catalogue is damaged. */
  damaged(): { readonly name: string; readonly damage: HersError }[] {
    return [...this.#damaged].map(([name, { number }]) => ({ name, damage: this.folder.catalogue.damageOf(number)! }));
  }

  /**
   * The result of `look`. Calls it again if another process has changed something in between and
   * `look` throws, or returns something that `isWrong`.
   */
  steadily<T>(look: () => T, isWrong: (found: T) => boolean = () => false): T {
    for (;;) {
      this.refresh();
      const generation = this.#generation;
      try {
        const found = look();
        if (!isWrong(found) || !this.#hasMoved(generation)) return found;
      } catch (error) {
        if (!isPerhapsMoved(error) || !this.#hasMoved(generation)) throw storageError(error, CATALOGUE);
      }
    }
  }

  /**
   * Whether another process has changed something since, as far as this or another call has
   * noticed.
   */
  #hasMoved(since: number): boolean {
    return this.refresh() || this.#generation !== since;
  }

  /**
   * A stream over a collection. It ends when it is aborted, the collection is deleted or the folder
   * is closed.
   */
  async *stream<T>(name: string, options: CallOptions | undefined, make: MakeStream<T>): AsyncGenerator<T> {
    for (;;) {
      const { collection } = this.get(name);
      const generation = this.#generation;
      using either = eitherSignal(collection.ending.signal, options?.signal);
      const { signal } = either;
      let begun = false;
      try {
        signal.throwIfAborted();
        for await (const item of make(collection, signal)) {
          begun = true;
          yield item;
          signal.throwIfAborted();
        }
        return;
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        // A file that another process has moved is not where it was looked for.
        if (!isPerhapsMoved(error) || !this.#hasMoved(generation)) throw storageError(error, CATALOGUE);
        if (begun)
          throw new HersError('STALE', `${name} was changed by another process while it was read; read it again`);
      }
    }
  }

  /**
   * The same over the collection as it is now, unaffected by what another process does to its
   * files.
   */
  streamFrozen<T>(name: string, options: CallOptions | undefined, make: MakeStream<T>): AsyncGenerator<T> {
    const { disk, catalogue, refresh, ...shared } = this.folder;
    if (!(catalogue instanceof ReadableCatalogue)) return this.stream(name, options, make);
    return this.stream(name, options, async function* ({ number, name, id, descriptor }, signal) {
      using pinned = new PinnedDisk(disk.folder);
      using frozen = catalogue.freeze(pinned);
      const folder = { ...shared, disk: pinned, catalogue: frozen, refresh: () => false };
      const collection = new Collection(folder, { number, name, id, descriptor });
      const { named, packEnds } = collection.files();
      for (const path of [...named, ...packEnds.map(([path]) => path)])
        if (!pinned.pinIfThere(path) && refresh()) throw damaged(path, 'it was moved meanwhile');
      yield* make(collection, signal);
    });
  }
}

/** The errors for a file or table that existed a moment ago. */
function isPerhapsMoved(error: unknown): boolean {
  if (error instanceof HersError) return error.code === 'DAMAGED';
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  return code === 'ERR_SQLITE_ERROR' && errcode === SQLITE_ERROR;
}
