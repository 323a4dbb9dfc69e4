// The catalogue: one SQLite file that lists the collections and where their data is. One process
// writes it, in transactions that are on disk when they return (WAL, synchronous = FULL). Deleted
// content is overwritten (secure_delete). Other processes may read it at the same time
// (catalogue-reader.ts): SQLite shows each reader the state of one commit.

import type { DatabaseSync, StatementSync } from 'node:sqlite';
import { HersError } from '@hers/service';
import { damaged } from '../base/storage-errors.ts';
import type { Disk } from '../files/disk.ts';
import { CATALOGUE } from '../files/layout.ts';
import type { JournalPart } from './journal.ts';
import type { Proof } from './proof.ts';

/** The tables of a collection end in its number; see tables.ts. */
const TABLE_OF_COLLECTION = /^(?:current|records|fresh|lists|blocks|segments|packs|stages|inbox|nonces|posted)_(\d+)$/;

/**
 * Damage in the catalogue, or missing proofs beside it. It makes some collections unusable, and the
 * whole folder read-only.
 */
interface Damage {
  readonly error: HersError;
  readonly collections: ReadonlySet<number>;
  /** Whether pages of it are damaged. Otherwise it is only unproven. */
  readonly isCertain: boolean;
}

export interface CollectionRow {
  readonly number: number;
  /** Null while it is being restored. */
  readonly name: string | null;
  readonly id: Uint8Array;
  readonly descriptor: Uint8Array;
}

export abstract class Catalogue {
  protected readonly disk: Disk;
  protected abstract readonly db: DatabaseSync;
  #damage: Damage | undefined;

  constructor(disk: Disk) {
    this.disk = disk;
  }

  /** Whether it is read-only: it is damaged, or another process writes it. */
  abstract readonly isReadOnly: boolean;

  prepare(sql: string): StatementSync {
    return this.db.prepare(sql);
  }

  exec(sql: string): void {
    this.db.exec(sql);
  }

  collections(): CollectionRow[] {
    return this.prepare(
      'SELECT key AS number, name, id, descriptor FROM collections',
    ).all() as unknown as CollectionRow[];
  }

  protected number(sql: string): number {
    return Object.values(this.db.prepare(sql).get() ?? {})[0] as number;
  }

  /**
   * The error for damage in the catalogue. Some collections are then unusable, and nothing can be
   * written.
   */
  damageOf(collectionNumber?: number): HersError | undefined {
    if (!this.#damage || (collectionNumber !== undefined && !this.#damage.collections.has(collectionNumber)))
      return undefined;
    return this.#damage.error;
  }

  /** Whether pages are damaged, and not only their proofs. */
  protected get isCertainlyDamaged(): boolean {
    return this.#damage?.isCertain ?? false;
  }

  /** Records what is wrong after the database was opened. */
  protected takeDamage({ pages, doubt }: Proof, db: DatabaseSync): void {
    this.#damage = undefined;
    if (pages.length > 0) {
      const error = new HersError(
        'DAMAGED',
        `${CATALOGUE} is damaged: page ${pages[0]} of it is not what was written. The folder is open for reading: take snapshots of what can be read, or run hers doctor --repair`,
      );
      this.#damage = { error, collections: collectionsOf(db, pages), isCertain: true };
    } else if (doubt) this.#damage = { error: doubt, collections: new Set(), isCertain: false };
  }

  /**
   * The result of opening, when every page was compared with its sum, and whether the pages are
   * consistent.
   */
  scrub(): { readonly file: string; readonly bytes: number; readonly damage?: HersError } {
    const file = { file: CATALOGUE, bytes: this.disk.sizeSync(CATALOGUE) ?? 0 };
    const damage = this.damageOf() ?? this.contradiction();
    return damage ? { ...file, damage } : file;
  }

  protected contradiction(): HersError | undefined {
    const [first] = this.db.prepare('PRAGMA integrity_check(1)').all();
    return first?.integrity_check === 'ok' ? undefined : damaged(CATALOGUE, String(first?.integrity_check));
  }

  /**
   * All of the transaction is on disk when this returns, or none of it. `work` is synchronous, so
   * nothing can observe a state in between. `parts` says what goes into the journal.
   */
  abstract transaction<T>(
    work: () => T,
    parts?: () => readonly JournalPart[],
    options?: { mayUseReserve?: boolean },
  ): T;

  /**
   * The same in one transaction with what others ask for at the same time: each waits for the disk,
   * and many small ones would wait one after the other. `done` is called with the result as soon as
   * all is on disk, before anything can observe it. What fails does so alone.
   */
  abstract together<T>(work: () => T, parts: () => readonly JournalPart[], done: (result: T) => void): Promise<void>;

  /**
   * Copies the log into the database and empties it. Returns false if readers still use the log.
   */
  abstract checkpoint(): boolean;

  /**
   * Removes outdated entries from the journal, and empties the log. Returns false if readers still
   * use the log.
   */
  abstract forgetPast(): boolean;

  /**
   * Rewrites the database, so that its files hold only current content once `checkpoint` has
   * emptied the log.
   */
  abstract vacuum(): void;

  abstract close(): void;
}

/**
 * Which collections the pages belong to. A damaged page that every collection needs makes all of
 * them unreadable; one that belongs to no table leaves all of them readable.
 */
function collectionsOf(db: DatabaseSync, pages: readonly number[]): Set<number> {
  const where = new Set(pages);
  const collections = new Set<number>();
  try {
    db.prepare('SELECT * FROM collections').all();
    for (const row of db.prepare('SELECT name, pageno FROM dbstat').iterate()) {
      if (!where.has(row.pageno as number)) continue;
      const number = TABLE_OF_COLLECTION.exec(row.name as string)?.[1];
      if (number === undefined) throw new Error(`${row.name} cannot be read`);
      collections.add(Number(number));
    }
  } catch (error) {
    throw damaged(CATALOGUE, `page ${pages[0]} of it is not what was written (${(error as Error).message})`);
  }
  return collections;
}
