// Staged data: on disk, but not part of a collection yet. It is forgotten when the folder is
// closed, after a day, or when later staged data needs its memory.

import { randomBytes } from 'node:crypto';
import { HANDLE_BYTES, HersError, type Partitions, type StageId } from '@hers/service';
import type { BlockRow } from './catalogue/tables.ts';
import { decodePlace, encodePlace, type Place } from './files/place.ts';
import { type Batch, ROW_BYTES } from './files/vault.ts';

/** With the partitions that whoever staged it is held to, if any. */
export type Stage = { readonly partitions?: Partitions | undefined } & (
  | { readonly kind: 'records'; readonly batch: Batch }
  | { readonly kind: 'list'; readonly batch: Batch; readonly id: Uint8Array }
  | { readonly kind: 'block'; readonly row: BlockRow }
);

type StageOf<K extends Stage['kind']> = Extract<Stage, { kind: K }>;

const LIFETIME_MS = 24 * 3600 * 1000;
/** Memory for staged entries in total, and for each staged thing, approximately. */
const MAX_STAGED_BYTES = 2 ** 26;
const STAGE_COST = 2048;

const costOf = (stage: Stage) => STAGE_COST + (stage.kind === 'block' ? 0 : stage.batch.rows.length);

export class Stages {
  readonly #stages = new Map<StageId, Stage>();
  readonly #since = new Map<StageId, number>();
  #bytes = 0;
  /** Batches that are still being written. */
  readonly #open = new Set<Batch>();

  add(stage: Stage): StageId {
    const id = randomBytes(16).toString('hex');
    this.#stages.set(id, stage);
    this.#since.set(id, Date.now());
    this.#bytes += costOf(stage);
    return id;
  }

  /**
   * Forgets what was not committed for a day, and the oldest beyond the limit. Returns the files of
   * blocks among it.
   */
  expire(now: number = Date.now()): string[] {
    const files: string[] = [];
    for (const [id, since] of this.#since) {
      // In the order of arrival. The newest stays, however large it is.
      if (now - since < LIFETIME_MS && (this.#bytes <= MAX_STAGED_BYTES || this.#stages.size === 1)) break;
      const stage = this.#stages.get(id);
      if (stage?.kind === 'block') files.push(stage.row.file);
      this.drop(id);
    }
    return files;
  }

  /** Files of blocks that nothing refers to yet. */
  files(): string[] {
    return [...this.#stages.values()].flatMap((stage) => (stage.kind === 'block' ? [stage.row.file] : []));
  }

  get<K extends Stage['kind']>(id: StageId, kind: K): StageOf<K> {
    const stage = this.#stages.get(id);
    if (!stage) throw notStaged(id);
    if (stage.kind !== kind)
      throw new HersError('INVALID_ARGUMENT', `a staged ${stage.kind} was given where a staged ${kind} belongs`);
    return stage as StageOf<K>;
  }

  /** NOT_FOUND unless it was staged by somebody who is held to some of these partitions. */
  checkHeld(id: StageId, partitions: Partitions): void {
    const held = this.#stages.get(id)?.partitions;
    if (!held || [...held].some((each) => !partitions.has(each))) throw notStaged(id);
  }

  drop(id: StageId): void {
    const stage = this.#stages.get(id);
    if (stage) this.#bytes -= costOf(stage);
    this.#stages.delete(id);
    this.#since.delete(id);
  }

  /** Runs `work` with a batch whose entries already count as staged. */
  async writing<T>(batch: Batch, work: () => Promise<T>): Promise<T> {
    this.#open.add(batch);
    try {
      return await work();
    } finally {
      this.#open.delete(batch);
      await batch.end();
    }
  }

  *#batches(): Generator<Batch> {
    yield* this.#open;
    for (const stage of this.#stages.values()) if (stage.kind !== 'block') yield stage.batch;
  }

  /** The places of staged entries in a pack, by offset. */
  placesIn(pack: number): Map<number, Place> {
    const places = new Map<number, Place>();
    for (const { rows } of this.#batches()) {
      for (let at = HANDLE_BYTES; at < rows.length; at += ROW_BYTES) {
        const place = decodePlace(rows, at);
        if (place.pack === pack) places.set(place.offset, place);
      }
    }
    return places;
  }

  /** Entries of a pack were copied to a new place. */
  move(pack: number, to: ReadonlyMap<number, Place>): void {
    for (const { rows } of this.#batches()) {
      for (let at = HANDLE_BYTES; at < rows.length; at += ROW_BYTES) {
        const place = decodePlace(rows, at);
        const next = place.pack === pack ? to.get(place.offset) : undefined;
        if (next) encodePlace(next, rows, at);
      }
    }
  }
}

function notStaged(id: StageId): HersError {
  return new HersError('NOT_FOUND', `nothing is staged as ${JSON.stringify(id)}, or no longer; stage it again`);
}
