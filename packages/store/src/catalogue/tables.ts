// The tables of one collection in the catalogue. Each collection has its own, so that deleting one
// is fast and a damaged page affects one collection only.

import type { SQLInputValue, StatementSync } from 'node:sqlite';
import { HANDLE_BYTES, type InboxItem } from '@hers/service';
import { handleKey } from '../base/bytes.ts';
import { decodePlace, encodePlace, PLACE_BYTES, type Place } from '../files/entry.ts';
import type { Catalogue } from './catalogue.ts';

const SCHEMA = (number: number) => `
CREATE TABLE current_${number} (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  version INTEGER NOT NULL,
  manifest BLOB NOT NULL,
  records INTEGER NOT NULL,   -- rows of records_${number}
  last_pack INTEGER NOT NULL, -- the highest number a pack ever had
  stale INTEGER NOT NULL      -- whether something was deleted that a purge has not removed from the catalogue's files
) STRICT;
CREATE TABLE records_${number} (handle BLOB PRIMARY KEY, place BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE fresh_${number} (batch INTEGER PRIMARY KEY, entries BLOB NOT NULL) STRICT;
CREATE TABLE lists_${number} (id BLOB PRIMARY KEY, place BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE blocks_${number} (
  id BLOB PRIMARY KEY,
  key_id BLOB NOT NULL,
  parameters INTEGER NOT NULL,
  width INTEGER NOT NULL,
  gallery_scale REAL NOT NULL,
  first INTEGER NOT NULL,
  count INTEGER NOT NULL,
  hash BLOB NOT NULL,         -- SHA-256 of the block as it was given
  seed BLOB NOT NULL,         -- of its masks
  bytes INTEGER NOT NULL,     -- of the block as it was given
  file TEXT NOT NULL,
  position INTEGER            -- in a segment; NULL for a file of its own
) STRICT, WITHOUT ROWID;
CREATE TABLE segments_${number} (file TEXT PRIMARY KEY, blocks INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE packs_${number} (
  pack INTEGER PRIMARY KEY,
  ends INTEGER NOT NULL,      -- behind its last committed entry
  live INTEGER NOT NULL       -- bytes of entries that lists_${number} and records_${number} name
) STRICT;
CREATE TABLE inbox_${number} (
  number INTEGER PRIMARY KEY,
  device INTEGER NOT NULL,
  nonce BLOB NOT NULL,
  posted INTEGER NOT NULL,    -- milliseconds since 1970
  envelope BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX nonces_${number} ON inbox_${number} (device, nonce);
CREATE TABLE posted_${number} (
  only INTEGER PRIMARY KEY CHECK (only = 1),
  last INTEGER NOT NULL,      -- the highest number an item ever had
  items INTEGER NOT NULL,     -- rows of inbox_${number}, and bytes of their envelopes
  bytes INTEGER NOT NULL,
  refused BLOB NOT NULL       -- numbers of devices that may not post, ascending, 4 bytes each
) STRICT;
INSERT INTO posted_${number} VALUES (1, 0, 0, 0, x'');`;

/** Of shards alone: what is staged survives a restart. */
const STAGES = (number: number) => `
CREATE TABLE stages_${number} (
  id TEXT PRIMARY KEY,        -- the hash of what was staged
  kind TEXT NOT NULL,
  made INTEGER NOT NULL,      -- milliseconds since 1970
  content BLOB NOT NULL       -- stages.ts
) STRICT, WITHOUT ROWID;`;

const NAMES = ['current', 'records', 'fresh', 'lists', 'blocks', 'segments', 'packs', 'inbox', 'posted'];

export interface BlockRow {
  readonly id: Uint8Array;
  readonly key_id: Uint8Array;
  readonly parameters: number;
  readonly width: number;
  readonly gallery_scale: number;
  readonly first: number;
  readonly count: number;
  readonly hash: Uint8Array;
  readonly seed: Uint8Array;
  readonly bytes: number;
  readonly file: string;
  readonly position: number | null;
}

export interface StageRow {
  readonly id: string;
  readonly kind: string;
  readonly made: number;
  readonly content: Uint8Array;
}

export interface Current {
  readonly version: number;
  readonly records: number;
  readonly last_pack: number;
  readonly stale: number;
}

interface PlaceRow {
  readonly place: Uint8Array;
}

interface PostedRow {
  readonly last: number;
  readonly items: number;
  readonly bytes: number;
  readonly refused: Uint8Array;
}

const MANY_ROWS = 256;
const MARKS = Array(MANY_ROWS).fill('?').join(', ');

export class Tables {
  readonly number: number;
  readonly #catalogue: Catalogue;
  readonly #statements = new Map<string, StatementSync>();

  constructor(catalogue: Catalogue, number: number) {
    this.#catalogue = catalogue;
    this.number = number;
  }

  /** The database was opened again. */
  reset(): void {
    this.#statements.clear();
  }

  /** Within a transaction. */
  create(version: number, manifest: Uint8Array, { keepsStages = false }: { keepsStages?: boolean } = {}): void {
    this.#catalogue.exec(SCHEMA(this.number) + (keepsStages ? STAGES(this.number) : ''));
    this.#sql(`INSERT INTO current_# VALUES (1, ?, ?, 0, 0, 0)`).run(version, manifest);
  }

  /** Within a transaction. */
  drop(): void {
    this.#catalogue.exec(NAMES.map((name) => `DROP TABLE ${name}_${this.number};`).join(' '));
    this.#catalogue.exec(`DROP TABLE IF EXISTS stages_${this.number}`);
    this.#statements.clear();
  }

  #sql(text: string): StatementSync {
    let statement = this.#statements.get(text);
    if (!statement) this.#statements.set(text, (statement = this.#once(text)));
    return statement;
  }

  #once(text: string): StatementSync {
    return this.#catalogue.prepare(text.replaceAll('_#', `_${this.number}`));
  }

  #all<Row>(text: string, ...values: SQLInputValue[]): Row[] {
    return this.#sql(text).all(...values) as Row[];
  }

  #get<Row>(text: string, ...values: SQLInputValue[]): Row | undefined {
    return this.#sql(text).get(...values) as Row | undefined;
  }

  // — what is current —

  current(): Current {
    return this.#get<Current>('SELECT version, records, last_pack, stale FROM current_#')!;
  }

  manifest(): { readonly version: number; readonly manifest: Uint8Array } {
    return this.#get<ReturnType<Tables['manifest']>>('SELECT version, manifest FROM current_#')!;
  }

  setCurrent(version: number, manifest: Uint8Array): void {
    this.#sql('UPDATE current_# SET version = ?, manifest = ?').run(version, manifest);
  }

  setStale(stale: boolean): void {
    this.#sql('UPDATE current_# SET stale = ?').run(stale ? 1 : 0);
  }

  // — records —

  place(handle: Uint8Array): Uint8Array | undefined {
    return this.#get<PlaceRow>('SELECT place FROM records_# WHERE handle = ?', handle)?.place;
  }

  /** Where records are, by their handles as latin1 strings. Missing records are left out. */
  places(handles: readonly Uint8Array[]): Map<string, Uint8Array> {
    const found = new Map<string, Uint8Array>();
    for (let at = 0; at < handles.length; at += MANY_ROWS) {
      const part = handles.slice(at, at + MANY_ROWS);
      // Only the statement of full length is reused, so only that is kept.
      const statement =
        part.length === MANY_ROWS
          ? this.#sql(`SELECT handle, place FROM records_# WHERE handle IN (${MARKS})`)
          : this.#once(`SELECT handle, place FROM records_# WHERE handle IN (${part.map(() => '?').join(', ')})`);
      statement.setReturnArrays(true);
      for (const [handle, place] of statement.all(...part) as unknown as [Uint8Array, Uint8Array][])
        found.set(handleKey(handle), place);
    }
    return found;
  }

  /**
   * Handles and places, alternating, of the first records after a handle; and the last of those
   * handles.
   */
  recordsAfter(handle: Uint8Array, limit: number): { readonly rows: Buffer; readonly last: Uint8Array } | undefined {
    // One string for all: row by row would take three times as long.
    const { rows, last } = this.#sql(
      `SELECT group_concat(hex(handle) || hex(place), '') AS rows, max(handle) AS last
       FROM (SELECT handle, place FROM records_# WHERE handle > ? ORDER BY handle LIMIT ?)`,
    ).get(handle, limit) as { rows: string | null; last: Uint8Array };
    return rows === null ? undefined : { rows: Buffer.from(rows, 'hex'), last };
  }

  /**
   * Inserts rows (handle and place, one after the other) that do not exist yet. Returns how many
   * were new.
   */
  insertRecords(rows: Uint8Array): number {
    return this.#putRecords('INSERT OR IGNORE', rows);
  }

  replaceRecords(rows: Uint8Array): void {
    this.#putRecords('INSERT OR REPLACE', rows);
  }

  /**
   * In the order in which they come: that of their handles is by far the fastest. SQLite cuts the
   * rows apart: two bound values for each of thousands would take longer than inserting them.
   */
  #putRecords(verb: string, rows: Uint8Array): number {
    const count = rows.length / (HANDLE_BYTES + PLACE_BYTES);
    if (count === 0) return 0;
    const put = this.#sql(
      `${verb} INTO records_# WITH RECURSIVE row(at) AS (
         SELECT 1 UNION ALL SELECT at + ${HANDLE_BYTES + PLACE_BYTES} FROM row LIMIT ?2)
       SELECT substr(?1, at, ${HANDLE_BYTES}), substr(?1, at + ${HANDLE_BYTES}, ${PLACE_BYTES}) FROM row`,
    );
    return Number(put.run(rows, count).changes);
  }

  deleteRecord(handle: Uint8Array): void {
    this.#sql('DELETE FROM records_# WHERE handle = ?').run(handle);
  }

  countRecords(change: number): void {
    this.#sql('UPDATE current_# SET records = records + ?').run(change);
  }

  // — records that changed lately —

  freshBatches(): { readonly batch: number; readonly entries: Uint8Array }[] {
    return this.#all('SELECT batch, entries FROM fresh_# ORDER BY batch');
  }

  addFresh(batch: number, entries: Uint8Array): void {
    this.#sql('INSERT INTO fresh_# VALUES (?, ?)').run(batch, entries);
  }

  dropFresh(until: number): void {
    this.#sql('DELETE FROM fresh_# WHERE batch <= ?').run(until);
  }

  // — lists —

  listPlace(id: Uint8Array): Place | undefined {
    const row = this.#get<PlaceRow>('SELECT place FROM lists_# WHERE id = ?', id);
    return row && decodePlace(row.place);
  }

  /** Whether any record or list is in this pack according to the catalogue. Reads all rows. */
  isNamed(pack: number): boolean {
    const start = encodePlace({ pack, offset: 0, length: 0 }).subarray(0, 4);
    const isIn = (table: string) =>
      this.#sql(`SELECT 1 FROM ${table}_# WHERE substr(place, 1, 4) = ? LIMIT 1`).get(start) !== undefined;
    return isIn('lists') || isIn('records');
  }

  lists(): { readonly id: Uint8Array; readonly place: Uint8Array }[] {
    return this.#all('SELECT id, place FROM lists_#');
  }

  /** A list that no pack has yet, or that another pack has. */
  putList(id: Uint8Array, place: Uint8Array): void {
    const { pack, offset, length } = decodePlace(place);
    this.extendPack(pack, offset + length);
    this.countLive(pack, length);
    this.#sql('INSERT OR REPLACE INTO lists_# VALUES (?, ?)').run(id, place);
  }

  dropList(id: Uint8Array): void {
    const { pack, length } = this.listPlace(id)!;
    this.countLive(pack, -length);
    this.#sql('DELETE FROM lists_# WHERE id = ?').run(id);
  }

  // — blocks and segments —

  blocks(): BlockRow[] {
    return this.#all('SELECT * FROM blocks_#');
  }

  addBlock(row: BlockRow): void {
    this.#sql(
      `INSERT INTO blocks_# VALUES
         (:id, :key_id, :parameters, :width, :gallery_scale, :first, :count, :hash, :seed, :bytes, :file, :position)`,
    ).run({ ...row });
  }

  dropBlock(id: Uint8Array): void {
    this.#sql('DELETE FROM blocks_# WHERE id = ?').run(id);
  }

  moveBlock(id: Uint8Array, file: string, position: number): void {
    this.#sql('UPDATE blocks_# SET file = ?, position = ? WHERE id = ?').run(file, position, id);
  }

  segments(): { readonly file: string; readonly blocks: number; readonly bytes: number }[] {
    return this.#all('SELECT file, blocks, bytes FROM segments_#');
  }

  addSegment(file: string, blocks: number, bytes: number): void {
    this.#sql('INSERT INTO segments_# VALUES (?, ?, ?)').run(file, blocks, bytes);
  }

  dropSegment(file: string): void {
    this.#sql('DELETE FROM segments_# WHERE file = ?').run(file);
  }

  // — what is staged, in shards —

  stages(): StageRow[] {
    return this.#all('SELECT id, kind, made, content FROM stages_# ORDER BY made');
  }

  putStage({ id, kind, made, content }: StageRow): void {
    this.#sql('INSERT OR REPLACE INTO stages_# VALUES (?, ?, ?, ?)').run(id, kind, made, content);
  }

  dropStage(id: string): void {
    this.#sql('DELETE FROM stages_# WHERE id = ?').run(id);
  }

  // — the inbox —

  inbox(): { readonly last: number; readonly items: number; readonly bytes: number; readonly refused: number[] } {
    const row = this.#get<PostedRow>('SELECT last, items, bytes, refused FROM posted_#')!;
    return { ...row, refused: [...new Uint32Array(row.refused.slice().buffer)] };
  }

  inboxOf(device: number): { readonly items: number; readonly bytes: number } {
    const sums = 'SELECT count(*) AS items, ifnull(sum(length(envelope)), 0) AS bytes FROM inbox_# WHERE device = ?';
    return this.#get<{ items: number; bytes: number }>(sums, device)!;
  }

  inboxNumber(device: number, nonce: Uint8Array): number | undefined {
    const select = 'SELECT number FROM inbox_# WHERE device = ? AND nonce = ?';
    return this.#get<{ number: number }>(select, device, nonce)?.number;
  }

  inboxItem(number: number): Uint8Array | undefined {
    return this.#get<InboxItem>('SELECT envelope FROM inbox_# WHERE number = ?', number)?.envelope;
  }

  inboxAfter(number: number, limit: number): InboxItem[] {
    const select = 'SELECT number, posted, envelope FROM inbox_# WHERE number > ? ORDER BY number LIMIT ?';
    return this.#all(select, number, limit);
  }

  putInbox(item: { device: number; nonce: Uint8Array; posted: number; envelope: Uint8Array }): number {
    this.#sql('UPDATE posted_# SET last = last + 1, items = items + 1, bytes = bytes + ?').run(item.envelope.length);
    const { last } = this.inbox();
    const { device, nonce, posted, envelope } = item;
    this.#sql('INSERT INTO inbox_# VALUES (?, ?, ?, ?, ?)').run(last, device, nonce, posted, envelope);
    return last;
  }

  dropInbox(numbers: readonly number[]): void {
    for (const number of numbers) this.#dropInbox('number = ?', number);
  }

  expireInbox(before: number): void {
    const first = this.#get<InboxItem>('SELECT posted FROM inbox_# ORDER BY number LIMIT 1');
    if (first && first.posted < before) this.#dropInbox('posted < ?', before);
  }

  #dropInbox(where: string, value: number): void {
    this.#sql(
      `UPDATE posted_# SET items = items - (SELECT count(*) FROM inbox_# WHERE ${where}),
         bytes = bytes - (SELECT ifnull(sum(length(envelope)), 0) FROM inbox_# WHERE ${where})`,
    ).run(value, value);
    this.#sql(`DELETE FROM inbox_# WHERE ${where}`).run(value);
  }

  setRefused(devices: readonly number[]): void {
    this.#sql('UPDATE posted_# SET refused = ?').run(new Uint8Array(Uint32Array.from(devices).buffer));
  }

  // — packs —

  packs(): { readonly pack: number; readonly ends: number; readonly live: number }[] {
    return this.#all('SELECT pack, ends, live FROM packs_# ORDER BY pack');
  }

  extendPack(pack: number, ends: number): void {
    this.#sql('INSERT INTO packs_# VALUES (?, ?, 0) ON CONFLICT DO UPDATE SET ends = max(ends, excluded.ends)').run(
      pack,
      ends,
    );
    this.#sql('UPDATE current_# SET last_pack = max(last_pack, ?)').run(pack);
  }

  /** The pack has this many more live bytes, or fewer. */
  countLive(pack: number, change: number): void {
    this.#sql('UPDATE packs_# SET live = live + ? WHERE pack = ?').run(change, pack);
  }

  dropPack(pack: number): void {
    this.#sql('DELETE FROM packs_# WHERE pack = ?').run(pack);
  }
}
