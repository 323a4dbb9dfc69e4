// The records that a collection must hold, and where each was found: places and not bytes, because
// a gallery is larger than memory.

import { HersError } from '@hers/service';

const NONE = -1;

/** Where an entry lies: the number of a pack, and the offset in it. */
export interface EntryPlace {
  readonly pack: number;
  readonly offset: number;
}

export class Live {
  readonly #index = new Map<string, number>();
  readonly #ids: (string | undefined)[] = [];
  readonly #versions: string[] = [];
  readonly #epochs: number[] = [];
  readonly #packs: number[] = [];
  readonly #offsets: number[] = [];
  readonly #found: number[] = [];

  get size(): number {
    return this.#ids.length;
  }

  /** A record that is named by a list or by the manifest, and the epoch that it is sealed under. */
  add(handle: string, id: string | undefined, version: string, epoch: number): void {
    if (this.#index.has(handle)) throw new HersError('INTEGRITY', 'the manifest names a record twice');
    this.#index.set(handle, this.#ids.length);
    this.#ids.push(id);
    this.#versions.push(version);
    this.#epochs.push(epoch);
    this.#packs.push(NONE);
    this.#offsets.push(0);
    this.#found.push(NONE);
  }

  has(handle: string): boolean {
    return this.#index.has(handle);
  }

  /** Whether an entry of this handle is worth opening. */
  isOpen(handle: string): boolean {
    const i = this.#index.get(handle);
    return i !== undefined && this.#found[i] !== this.#epochs[i];
  }

  /**
   * An entry that was opened. Sealed under the epoch that it should be is best; under another it is
   * the same record.
   */
  take(handle: string, version: string, epoch: number, { pack, offset }: EntryPlace): void {
    const i = this.#index.get(handle)!;
    if (version !== this.#versions[i] || (epoch !== this.#epochs[i] && epoch <= this.#found[i])) return;
    this.#packs[i] = pack;
    this.#offsets[i] = offset;
    this.#found[i] = epoch;
  }

  isFound(handle: string): boolean {
    const i = this.#index.get(handle);
    return i !== undefined && this.#packs[i] !== NONE;
  }

  isAt(handle: string, pack: number, offset: number): boolean {
    const i = this.#index.get(handle);
    return i !== undefined && this.#packs[i] === pack && this.#offsets[i] === offset;
  }

  get found(): number {
    return this.#packs.reduce((sum, pack) => sum + (pack === NONE ? 0 : 1), 0);
  }

  /**
   * Ids of those that are nowhere; undefined for those that were pending, which only their
   * handle names.
   */
  lost(): (string | undefined)[] {
    return this.#ids.filter((_, i) => this.#packs[i] === NONE);
  }

  packs(): Set<number> {
    return new Set(this.#packs);
  }
}
