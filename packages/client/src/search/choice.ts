// Which records of a view count: those that pass a filter and have not expired. The client knows
// which record is in which slot, so it leaves the others out before it ranks, and the results are
// exact. What the store is asked for does not depend on it. A filter is checked before a query is
// sent, and evaluated block by block while the store works.

import { type Fields, type FieldValue, invalid, quoted } from '../fields/field.ts';
import { type CompiledFilter, compileFilter, wordsFor } from '../filter/evaluate.ts';
import type { Filter } from '../filter/filter.ts';
import { liveCount, type ManifestBlock } from '../formats/manifest.ts';
import type { PendingRecord } from '../formats/records.ts';
import type { CollectionSession } from '../session/session.ts';
import { isDead, partitionOf, type RecordLocation, type View } from '../session/view.ts';
import type { Found, ScanPart } from './scan.ts';

/** A date field of this name says when a record ends. */
export const EXPIRES = 'expires';
/** Filters whose answers are kept. */
const MAX_KEPT = 8;

/** What counts of one view. */
export interface Choice {
  /** Of a block: bit j & 31 of word j >> 5 for slot j. Undefined where all slots count. */
  slots(block: ManifestBlock): Uint32Array | undefined;
  isPending(record: PendingRecord): boolean;
}

/** Which slots of a block pass a filter, and what that was found out from. */
interface Answer {
  readonly passing: Uint32Array;
  /** The names of the columns, which never change. */
  readonly columns: readonly string[];
  /** A filter by ids looks at records that are alive. */
  readonly dead: readonly number[];
}

/** The choices of one collection; answers to the latest filters are kept. */
export class Choices {
  /** By filter, and then by block. */
  readonly #kept = new Map<string, Map<string, Answer>>();
  readonly #memory = new BitsetMemory();

  /** Undefined where everything counts. Without a `now`, nothing has expired. */
  of(view: View, filter: Filter | undefined, now: number | undefined): Choice | undefined {
    const { fields } = view.manifest;
    const asked = filter === undefined ? undefined : compileFilter(filter, fields);
    const expiry = now === undefined ? undefined : expiryOf(fields, now);
    if (!asked && !expiry) return undefined;
    if (asked) checkComplete(view, asked.fields);
    const kept = asked && this.#answersTo(asked, view);
    const locate = locator(view);
    return {
      slots: (block) => {
        const passing = kept && this.#passing(view, block, asked, kept, locate);
        // Nothing is kept of it: time goes on.
        const alive = expiry && hasExpired(view, block, now!) ? evaluate(view, block, expiry, locate) : undefined;
        return passing && alive ? passing.map((word, i) => word & alive[i]) : (passing ?? alive);
      },
      isPending: ({ values, id }) => [asked, expiry].every((each) => each?.passesOne(values, id) ?? true),
    };
  }

  #answersTo({ canonical }: CompiledFilter, view: View): Map<string, Answer> {
    const kept = this.#kept.get(canonical) ?? new Map<string, Answer>();
    // The one that was used last comes last.
    this.#kept.delete(canonical);
    this.#kept.set(canonical, kept);
    if (this.#kept.size > MAX_KEPT) this.#kept.delete(this.#kept.keys().next().value!);
    // Blocks that are gone; a few may stay.
    if (kept.size > 2 * view.manifest.blocks.length + MAX_KEPT) kept.clear();
    return kept;
  }

  #passing(
    view: View,
    block: ManifestBlock,
    filter: CompiledFilter,
    kept: Map<string, Answer>,
    locate: Locate,
  ): Uint32Array {
    const known = kept.get(block.id);
    const columns = filter.fields.map((field) => block.columns![field]);
    const { dead } = block;
    if (known && areSame(known.columns, columns) && areSame(known.dead, dead)) return known.passing;
    const passing = evaluate(view, block, filter, locate, this.#memory.take(wordsFor(block.count)));
    kept.set(block.id, { passing, columns, dead });
    return passing;
  }
}

const areSame = <T>(one: readonly T[], other: readonly T[]) =>
  one === other || (one.length === other.length && one.every((each, i) => each === other[i]));

/** Bitsets of many blocks share a buffer: one for each costs more than to evaluate a condition. */
class BitsetMemory {
  #words = new Uint32Array(0);
  #used = 0;

  take(count: number): Uint32Array {
    if (this.#used + count > this.#words.length) {
      this.#words = new Uint32Array(Math.max(count, MEMORY_WORDS));
      this.#used = 0;
    }
    return this.#words.subarray(this.#used, (this.#used += count));
  }
}

const MEMORY_WORDS = 2 ** 13;

function evaluate(
  view: View,
  { id, count }: ManifestBlock,
  filter: CompiledFilter,
  locate: Locate,
  out?: Uint32Array,
): Uint32Array {
  const list = view.entries.get(id)!;
  const find = (wanted: string) => {
    const place = locate(wanted);
    return typeof place === 'object' && place.block.id === id ? place.slot : undefined;
  };
  return filter.passing(view.columns.get(id)!, { count, id: (slot) => list.id(slot), find }, count, out);
}

type Locate = (id: string) => RecordLocation | undefined;

/** Every block of a view asks for the same ids. */
function locator(view: View): Locate {
  const known = new Map<string, RecordLocation | undefined>();
  return (id) => {
    if (!known.has(id)) known.set(id, view.locate(id));
    return known.get(id);
  };
}

/** INVALID_ARGUMENT where there is no such field, or it is still being added. */
export function checkFieldNames(view: View, names: readonly string[], what: string): void {
  const { fields } = view.manifest;
  for (const name of names)
    if (!Object.hasOwn(fields, name)) {
      const all = Object.keys(fields);
      const there = all.length > 0 ? `it has ${all.join(', ')}` : 'it has none; addFields (hers fields add) adds some';
      throw invalid(`${what}: the collection has no field ${quoted(name)}; ${there}`);
    }
  checkComplete(view, names);
}

/** The field of a group. INVALID_ARGUMENT unless each record has at most one value in it. */
export function checkGroupField(view: View, field: string, what: string): string {
  checkFieldNames(view, [field], what);
  const type = view.manifest.fields[field];
  if (type !== 'keyword')
    throw invalid(`${what} needs a field of type keyword, and ${quoted(field)} is of type ${type}`);
  return field;
}

function checkComplete({ manifest }: View, fields: readonly string[]): void {
  for (const field of fields) {
    const left = manifest.blocks.filter(({ columns }) => columns?.[field] === undefined).length;
    if (left > 0)
      throw invalid(
        `the field ${quoted(field)} was added, and ${left} of ${manifest.blocks.length} blocks do not have it yet; addFields (hers fields add) goes on where it stopped`,
      );
  }
}

/** What has not expired, in a collection whose records do. */
function expiryOf(fields: Fields, now: number): CompiledFilter | undefined {
  if (fields[EXPIRES] !== 'date') return undefined;
  const at = new Date(now).toISOString();
  return compileFilter({ must_not: { field: EXPIRES, range: { lte: at } } }, { [EXPIRES]: 'date' });
}

/** Whether anything in a block has; a block that does not have the column yet expires later. */
function hasExpired(view: View, { id }: ManifestBlock, now: number): boolean {
  const dictionary = view.columns.get(id)!.get(EXPIRES)?.dictionary;
  return dictionary !== undefined && dictionary.size > 0 && (dictionary.at(1) as number) <= now;
}

/**
 * Yields the records that count, in the order in which they were written; those after one, if
 * given.
 */
export function* chosenRecords(
  view: View,
  choice: Choice | undefined,
  after?: string,
  part: ScanPart = wholeOf(view),
): Generator<Pick<Found, 'id' | 'block' | 'slot' | 'pending'>> {
  const place = after === undefined ? undefined : view.locate(after);
  let isPast = place === undefined;
  for (const block of part.blocks) {
    if (!isPast && place !== 'pending' && place!.block.id !== block.id) continue;
    if (place === 'pending') break;
    const list = view.entries.get(block.id)!;
    const slots = choice?.slots(block);
    for (const slot of list.inOrder()) {
      if (isPast && isIn(slots, slot) && !isDead(block, slot)) yield { id: list.id(slot), block: block.id, slot };
      if (!isPast && slot === place!.slot) isPast = true;
    }
  }
  for (const record of part.pending) {
    if (isPast && (choice?.isPending(record) ?? true)) yield { id: record.id, pending: record };
    if (record.id === after) isPast = true;
  }
}

/** What the view has of these fields of a record. Nothing is fetched for it. */
export function fieldsOf(
  view: View,
  { block, slot, pending }: Pick<Found, 'block' | 'slot' | 'pending'>,
  fields: readonly string[],
): Record<string, FieldValue> {
  const entries = fields.map((field) => [
    field,
    // A field that was added is in no column of the blocks that are not yet through.
    pending ? pending.values.get(field) : view.columns.get(block!)?.get(field)?.value(slot!),
  ]);
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

export function isChosen(view: View, choice: Choice | undefined, id: string): boolean {
  const place = view.locate(id);
  if (place === undefined || !choice) return place !== undefined;
  return place === 'pending' ? choice.isPending(view.pendingWith(id)!) : isIn(choice.slots(place.block), place.slot);
}

export function chosenCount(view: View, choice: Choice | undefined, part: ScanPart = wholeOf(view)): number {
  let count = 0;
  for (const block of part.blocks) {
    const slots = choice?.slots(block);
    count += slots ? bitsIn(slots) : block.count;
    for (const slot of block.dead) if (isIn(slots, slot)) count--;
  }
  for (const record of part.pending) if (choice?.isPending(record) ?? true) count++;
  return count;
}

function wholeOf(view: View): ScanPart {
  return { blocks: view.manifest.blocks, pending: [...view.pending.values()] };
}

function isIn(slots: Uint32Array | undefined, slot: number): boolean {
  return slots === undefined || ((slots[slot >> 5] >>> (slot & 31)) & 1) === 1;
}

function bitsIn(words: Uint32Array): number {
  let count = 0;
  for (let word of words) {
    word -= (word >>> 1) & 0x55555555;
    word = (word & 0x33333333) + ((word >>> 2) & 0x33333333);
    count += Math.imul((word + (word >>> 4)) & 0x0f0f0f0f, 0x01010101) >>> 24;
  }
  return count;
}

/** INVALID_ARGUMENT unless it names partitions, or is undefined, which means all. */
export function checkPartitions(partitions: unknown): asserts partitions is readonly string[] | undefined {
  if (partitions === undefined) return;
  if (!Array.isArray(partitions) || partitions.length === 0 || partitions.some((each) => typeof each !== 'string'))
    throw invalid("partitions is a list of names, such as ['site-1']");
}

/**
 * What is in these partitions, or all of the view. Partitions that nothing is in are empty, and no
 * error. FORBIDDEN if this client is limited to others.
 */
export function inPartitions(
  session: CollectionSession,
  view: View,
  partitions: readonly string[] | undefined,
): ScanPart {
  checkPartitions(partitions);
  const { blocks } = view.manifest;
  const pending = [...view.pending.values()];
  if (partitions === undefined) return { blocks, pending };
  if (view.manifest.partitionBy === undefined)
    throw invalid('this collection has no partitions: they are named when it is made (partitionBy)');
  const names = new Set(partitions.map((name) => name.normalize('NFC')));
  for (const name of names) session.checkPartition(name);
  const isIn = (name: string | undefined) => name !== undefined && names.has(name);
  return {
    blocks: blocks.filter(({ partition }) => isIn(partition)),
    pending: pending.filter(({ values }) => isIn(partitionOf(view.manifest, values))),
  };
}

/** One partition of a collection. */
export interface Partition {
  /** Undefined for the records that are in none. */
  readonly name?: string;
  /** All that a store sees of it: what a token is limited to (`hers tokens create`). */
  readonly handle: string;
  /** Records that can be found. */
  readonly records: number;
  /** Those of them that are in no block yet. */
  readonly pending: number;
  /** That hold its records. */
  readonly blocks: number;
}

/** The partitions of a view, by name; records that are in none come last. */
export function partitionsOf(view: View, handleOf: (name: string | undefined) => string): Partition[] {
  const { manifest } = view;
  const blocks = Map.groupBy(manifest.blocks, ({ partition }) => partition);
  const pending = Map.groupBy(view.pending.values(), ({ values }) => partitionOf(manifest, values));
  const names = [...new Set([...blocks.keys(), ...pending.keys()])];
  const isBefore = (a: string | undefined, b: string | undefined) => a !== undefined && (b === undefined || a < b);
  return names
    .sort((a, b) => (isBefore(a, b) ? -1 : 1))
    .map((name) => {
      const part = { blocks: blocks.get(name) ?? [], pending: pending.get(name) ?? [] };
      return {
        ...(name === undefined ? {} : { name }),
        handle: handleOf(name),
        records: liveCount(part),
        pending: part.pending.length,
        blocks: part.blocks.length,
      };
    });
}
