// Staged data: on disk, but not part of a collection yet. It is forgotten after a day, or when
// later staged data needs its memory.
//
// In a plain folder it is also forgotten when the folder is closed. In the folder of a node, whose
// collections are shards, it is kept in the catalogue, named by the hash of its content: an entry
// of the ledger that names it can be applied after a restart. A plain folder does without, because
// a row costs every staging one more transaction that is synced, and the only writer of a folder
// ends with the process that staged.

import { randomBytes } from 'node:crypto';
import {
  type CallOptions,
  type Change,
  COMMIT_PARTS,
  type CommitHead,
  decodeCommit,
  decodeMessage,
  encodeCommit,
  encodeMessage,
  HANDLE_BYTES,
  HersError,
  LIST_ID_BYTES,
  type Message,
  otherFormat,
  type Partitions,
  type SearchCallOptions,
  type SearchedShard,
  type StageId,
} from '@hers/service';
import { hex, sha256 } from './base/bytes.ts';
import type { BlockRow, StageRow, Tables } from './catalogue/tables.ts';
import { decodePlace, encodePlace, type Place } from './files/entry.ts';
import { ROW_BYTES } from './files/vault.ts';

/** A handle and a place for every entry, ROW_BYTES each. */
interface Rows {
  readonly rows: Buffer;
}

/** With the partitions that whoever staged it is held to, if any. */
export type Stage = { readonly partitions?: Partitions | undefined } & (
  | { readonly kind: 'records'; readonly batch: Rows }
  | { readonly kind: 'list'; readonly batch: Rows; readonly id: Uint8Array }
  | { readonly kind: 'block'; readonly row: BlockRow }
  | { readonly kind: 'change'; readonly encoded: Uint8Array }
);

type StageOf<K extends Stage['kind']> = Extract<Stage, { kind: K }>;

const LIFETIME_MS = 24 * 3600 * 1000;
/** Memory for staged entries in total, and for each staged thing, approximately. */
const MAX_STAGED_BYTES = 2 ** 26;
const STAGE_COST = 2048;

function costOf(stage: Stage): number {
  switch (stage.kind) {
    case 'block':
      return STAGE_COST;
    case 'change':
      return STAGE_COST + stage.encoded.length;
    default:
      return STAGE_COST + stage.batch.rows.length;
  }
}

export interface ShardChange extends Change {
  readonly version: number;
  readonly basis: string;
}

export interface ShardState {
  readonly version: number;
  /** Two changes that make the same version make two states: see `stateOf`. */
  readonly state: string;
}

/** A change that is staged in a shard, and what it makes of it. */
export interface StagedChange extends ShardState {
  readonly change: StageId;
}

/** The calls of a node for its shards, besides those of a Service. */
export interface ShardCalls {
  /** Stages a change of a shard, if it can be applied to what the shard is now. */
  prepare(name: string, change: ShardChange, options?: CallOptions): Promise<StageId>;
  /**
   * Applies it, unless the shard has the version that it makes, or a later one. STALE if it has
   * that by another change.
   */
  apply(name: string, staged: StagedChange, options?: CallOptions): Promise<number>;
  /** The version of a shard, and which change made it. */
  getState(name: string, options?: CallOptions): Promise<ShardState>;
  /** Searches several shards in one scan. Evaluation keys are the same for all of them. */
  searchShards(
    shards: readonly SearchedShard[],
    queries: readonly Uint8Array[],
    options?: SearchCallOptions,
  ): AsyncIterable<Uint8Array>;
  /** Empties a node, or lets it take shards again. */
  drain?(node: string, draining: boolean): Promise<void>;
  /** Changes how many nodes keep each shard of a collection. */
  setReplicas?(collection: string, replicas: number): Promise<void>;
}

const STATE_BYTES = 16;

/** The name of the state of a shard. No two changes have the same manifest. */
export function stateOf(manifest: Uint8Array): string {
  return hex(sha256(manifest).subarray(0, STATE_BYTES));
}

export function encodeShardChange({ version, basis, ...change }: ShardChange): Uint8Array {
  const { head, parts } = decodeMessage(encodeCommit(change), COMMIT_PARTS) as Message<CommitHead>;
  return encodeMessage({ ...head, version, basis }, parts);
}

export function decodeShardChange(encoded: Uint8Array): ShardChange {
  const { head, parts } = decodeMessage(encoded, COMMIT_PARTS) as Message<CommitHead & Omit<ShardChange, keyof Change>>;
  return decodeCommit({ head, parts }) as ShardChange;
}

export function stagesOf({ records = [], blocks = [], lists = [] }: Change): StageId[] {
  return [...records, ...blocks, ...lists];
}

export class Stages {
  readonly #stages = new Map<StageId, Stage>();
  readonly #since = new Map<StageId, number>();
  #bytes = 0;
  /** Batches that are still being written. */
  readonly #open = new Set<Rows>();

  /** In the order in which they were staged. */
  load(rows: readonly StageRow[]): void {
    for (const row of rows) this.#put(row.id, decodeStage(row), row.made);
  }

  #put(id: StageId, stage: Stage, since: number): void {
    this.#stages.set(id, stage);
    this.#since.set(id, since);
    this.#bytes += costOf(stage);
  }

  add(stage: Stage, id: StageId = randomBytes(16).toString('hex'), now: number = Date.now()): StageId {
    this.drop(id);
    this.#put(id, stage, now);
    return id;
  }

  all(): Stage[] {
    return [...this.#stages.values()];
  }

  has(id: StageId): boolean {
    return this.#stages.has(id);
  }

  /**
   * Forgets what was not committed for a day, and the oldest beyond the limit, but nothing that a
   * staged change needs. `forget` is called with their ids before. Returns the files of blocks
   * among it.
   */
  expire(now: number = Date.now(), forget: (ids: readonly StageId[]) => void = () => {}): string[] {
    const old: StageId[] = [];
    const needed = this.#needed(now);
    let bytes = this.#bytes;
    for (const [id, since] of this.#since) {
      // In the order of arrival. The newest stays, however large it is.
      const isLast = old.length === this.#stages.size - 1;
      if (now - since < LIFETIME_MS && (bytes <= MAX_STAGED_BYTES || isLast)) break;
      if (needed.has(id)) continue;
      old.push(id);
      bytes -= costOf(this.#stages.get(id)!);
    }
    if (old.length === 0) return [];
    forget(old);
    const files = old.flatMap((id) => this.#filesOf(this.#stages.get(id)!));
    for (const id of old) this.drop(id);
    return files;
  }

  /** Changes that may still be applied, and what they bring. */
  #needed(now: number): Set<StageId> {
    const needed = new Set<StageId>();
    for (const [id, stage] of this.#stages) {
      if (stage.kind !== 'change' || now - this.#since.get(id)! >= LIFETIME_MS) continue;
      needed.add(id);
      for (const each of stagesOf(decodeShardChange(stage.encoded))) needed.add(each);
    }
    return needed;
  }

  #filesOf(stage: Stage): string[] {
    return stage.kind === 'block' ? [stage.row.file] : [];
  }

  /** Files of blocks that nothing refers to yet. */
  files(): string[] {
    return [...this.#stages.values()].flatMap((stage) => this.#filesOf(stage));
  }

  get<K extends Stage['kind']>(id: StageId, kind: K): StageOf<K> {
    const stage = this.#stages.get(id);
    if (!stage) throw notStaged(id);
    if (stage.kind !== kind)
      throw new HersError('INVALID_ARGUMENT', `a staged ${stage.kind} was given where a staged ${kind} belongs`);
    return stage as StageOf<K>;
  }

  /** Staged changes that are based on this version or an earlier one. */
  changesUntil(version: number): StageId[] {
    const ids: StageId[] = [];
    for (const [id, stage] of this.#stages)
      if (stage.kind === 'change' && decodeShardChange(stage.encoded).expected <= version) ids.push(id);
    return ids;
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
  async writing<T>(batch: Rows & { end(): Promise<void> }, work: () => Promise<T>): Promise<T> {
    this.#open.add(batch);
    try {
      return await work();
    } finally {
      this.#open.delete(batch);
      await batch.end();
    }
  }

  *#batches(): Generator<Rows> {
    yield* this.#open;
    for (const stage of this.#stages.values()) if ('batch' in stage) yield stage.batch;
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
    for (const { rows } of this.#batches()) moveRows(rows, pack, to);
  }

  /** The same for what the catalogue keeps, within a transaction. */
  moveKept(tables: Tables, pack: number, to: ReadonlyMap<number, Place>): void {
    for (const [id, stage] of this.#stages) {
      if (!('batch' in stage)) continue;
      const batch = { rows: Buffer.from(stage.batch.rows) };
      if (moveRows(batch.rows, pack, to)) keepStage(tables, id, { ...stage, batch }, this.#since.get(id)!);
    }
  }
}

function moveRows(rows: Buffer, pack: number, to: ReadonlyMap<number, Place>): boolean {
  let moved = false;
  for (let at = HANDLE_BYTES; at < rows.length; at += ROW_BYTES) {
    const place = decodePlace(rows, at);
    const next = place.pack === pack ? to.get(place.offset) : undefined;
    if (!next) continue;
    encodePlace(next, rows, at);
    moved = true;
  }
  return moved;
}

/** Puts a stage into the catalogue, within a transaction. */
export function keepStage(tables: Tables, id: StageId, stage: Stage, made: number): void {
  if ('batch' in stage) {
    const ends = new Map<number, number>();
    for (let at = HANDLE_BYTES; at < stage.batch.rows.length; at += ROW_BYTES) {
      const { pack, offset, length } = decodePlace(stage.batch.rows, at);
      ends.set(pack, Math.max(ends.get(pack) ?? 0, offset + length));
    }
    // Otherwise what lies behind the last committed entry would be taken for the rest of a crash.
    for (const [pack, end] of ends) tables.extendPack(pack, end);
  }
  tables.putStage({ id, kind: stage.kind, made, content: encodeStage(stage) });
}

const BYTES = /^(?:id|key_id|hash|seed)$/;

function encodeStage(stage: Stage): Uint8Array {
  switch (stage.kind) {
    case 'records':
      return stage.batch.rows;
    case 'list':
      return Buffer.concat([stage.id, stage.batch.rows]);
    case 'block': {
      const fields = Object.entries(stage.row).map(([name, value]) => [
        name,
        value instanceof Uint8Array ? Buffer.from(value).toString('hex') : value,
      ]);
      return Buffer.from(JSON.stringify(Object.fromEntries(fields)));
    }
    case 'change':
      return stage.encoded;
  }
}

function decodeStage({ kind, content }: StageRow): Stage {
  // A copy: places are changed in it.
  const bytes = Buffer.from(content);
  switch (kind) {
    case 'records':
      return { kind, batch: { rows: bytes } };
    case 'list':
      return {
        kind,
        id: new Uint8Array(bytes.subarray(0, LIST_ID_BYTES)),
        batch: { rows: bytes.subarray(LIST_ID_BYTES) },
      };
    case 'block': {
      const row = JSON.parse(bytes.toString(), (name, value) =>
        BYTES.test(name) && typeof value === 'string' ? new Uint8Array(Buffer.from(value, 'hex')) : value,
      );
      return { kind, row };
    }
    case 'change':
      return { kind, encoded: bytes };
    default:
      throw otherFormat('what is staged here');
  }
}

function notStaged(id: StageId): HersError {
  return new HersError('NOT_FOUND', `nothing is staged as ${JSON.stringify(id)}, or no longer; stage it again`);
}
