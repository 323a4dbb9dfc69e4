// The fields of a collection: adding and dropping them, and changing what records have in them. A
// column of a block is made from the vault, and blocks are not touched for it. Each step is one
// commit, so an interrupted run continues where it stopped, and the collection can be searched
// throughout.

import { HersError, MAX_REMOVED, refuseUnknown } from '@hers/service';
import { fromHex } from '../bytes.ts';
import { checkFields, type Fields, type FieldValues, invalid, quoted } from '../fields/field.ts';
import { packed } from '../formats/batch.ts';
import { List } from '../formats/lists.ts';
import { liveCount, type ManifestBlock } from '../formats/manifest.ts';
import { checkPayload, type Payload, PendingRecord, type PlainRecord, valuesIn } from '../formats/records.ts';
import { Choices, chosenCount, EXPIRES } from '../search/choice.ts';
import { Draft } from '../session/draft.ts';
import type { CollectionSession } from '../session/session.ts';
import { isDead, partitionOf, type View } from '../session/view.ts';
import { namedRecords } from './enrolment.ts';
import { BLOCKS_AT_ONCE, MAINTENANCE_OPTIONS, type MaintenanceOptions } from './maintenance.ts';

export function checkedFields(given: unknown): Fields {
  const fields = checkFields(given);
  if (EXPIRES in fields && fields[EXPIRES] !== 'date')
    throw invalid(
      `the field ${EXPIRES} says when a record ends, so it is of type date; give another name to other things`,
    );
  return fields;
}

/**
 * Adds fields, and makes their columns for the records that are there. The same call takes up an
 * interrupted one. INVALID_ARGUMENT if a record has a value that does not fit: nothing is added
 * then for its block and those after it, until the record is corrected or the field dropped.
 */
export async function addFields(session: CollectionSession, given: Fields, options: MaintenanceOptions): Promise<void> {
  refuseUnknown(options, MAINTENANCE_OPTIONS, 'adding fields');
  session.checkWhole('adding a field');
  const fields = checkedFields(given);
  await session.refresh();
  await session.write(async (view) => {
    const before = view.manifest.fields;
    for (const [name, type] of Object.entries(fields))
      if (Object.hasOwn(before, name) && before[name] !== type)
        throw invalid(
          `there is a field ${quoted(name)} of type ${before[name]} already; drop it first, or choose another name`,
        );
    if (Object.keys(fields).every((name) => Object.hasOwn(before, name))) return { result: undefined };
    const draft = new Draft(view);
    draft.fields = checkFields({ ...before, ...fields });
    // Of pending records only the values of earlier fields are known.
    for await (const [record] of namedRecords(session, view, [...view.pending.values()], options.signal))
      draft.pending.set(record.handle, PendingRecord.of(record, draft.fields));
    return { draft, result: undefined };
  });
  await completeFields(session, options);
}

/** Drops fields and their columns; the payloads of the records stay as they are. */
export async function dropFields(session: CollectionSession, names: readonly string[]): Promise<void> {
  session.checkWhole('dropping a field');
  const view = await session.refresh();
  for (const name of names) {
    if (!Object.hasOwn(view.manifest.fields, name)) throw invalid(`there is no field ${quoted(name)} to drop`);
    checkDroppable(view, name);
  }
  // A change drops so many lists at most.
  for (const name of new Set(names)) await dropField(session, name);
}

function checkDroppable(view: View, name: string): void {
  if (name === view.manifest.partitionBy)
    throw invalid(`the field ${quoted(name)} says in which partition a record is, and stays`);
  if (name === EXPIRES && hasExpired(view))
    throw invalid(
      `records have expired, and without the field ${EXPIRES} they would be found again: expire them first`,
    );
}

function dropField(session: CollectionSession, name: string): Promise<void> {
  return session.write(async (view) => {
    const { [name]: type, ...fields } = view.manifest.fields;
    if (type === undefined) return { result: undefined };
    checkDroppable(view, name);
    const draft = new Draft(view);
    draft.fields = checkFields(fields);
    draft.blocks = draft.blocks.map((block) => {
      const { [name]: column, ...columns } = block.columns ?? {};
      if (column !== undefined) draft.droppedLists.push(fromHex(column));
      draft.columns.set(block.id, new Map([...view.columns.get(block.id)!].filter(([field]) => field !== name)));
      return { ...block, columns };
    });
    return { draft, result: undefined };
  });
}

function hasExpired(view: View): boolean {
  return chosenCount(view, new Choices().of(view, undefined, Date.now())) < liveCount(view.manifest);
}

function missingFields(fields: Fields, { columns = {} }: ManifestBlock): string[] {
  return Object.keys(fields).filter((name) => columns[name] === undefined);
}

export async function completeFields(
  session: CollectionSession,
  { signal, onProgress }: MaintenanceOptions,
): Promise<void> {
  const unfinished = ({ manifest }: View) =>
    manifest.blocks.filter((block) => missingFields(manifest.fields, block).length > 0);
  const total = unfinished(await session.view()).length;
  for (let done = 0; ; ) {
    signal?.throwIfAborted();
    const count = await session.write(async (view) => {
      const blocks = unfinished(view).slice(0, BLOCKS_AT_ONCE);
      if (blocks.length === 0) return { result: 0 };
      const draft = new Draft(view);
      for (const block of blocks) await setColumns(session, draft, block, missingFields(draft.fields, block), signal);
      return { draft, result: blocks.length };
    });
    if (count === 0) return;
    done += count;
    onProgress?.({ done: Math.min(done, total), total });
  }
}

/** Makes columns of a block from the vault. Dead slots have no values. */
async function setColumns(
  session: CollectionSession,
  draft: Draft,
  block: ManifestBlock,
  fields: readonly string[],
  signal: AbortSignal | undefined,
): Promise<void> {
  const list = draft.view.entries.get(block.id)!;
  const slots = [...Array(block.count).keys()].filter((slot) => !isDead(block, slot));
  const values: FieldValues[] = Array.from({ length: block.count }, () => new Map());
  const wanted = slots.map((slot) => ({ id: list.id(slot), version: list.version(slot), slot }));
  for await (const [record, { slot }] of namedRecords(session, draft.view, wanted, signal))
    values[slot] = valuesIn(record, draft.fields);
  await replaceColumns(session, draft, block, fields, values);
}

async function replaceColumns(
  session: CollectionSession,
  draft: Draft,
  block: ManifestBlock,
  fields: readonly string[],
  values: readonly FieldValues[],
): Promise<void> {
  const { columns, names } = await session.stageColumns(draft, block, fields, values);
  for (const field of fields) {
    const before = block.columns?.[field];
    if (before !== undefined) draft.droppedLists.push(fromHex(before));
  }
  draft.columns.set(block.id, new Map([...draft.columns.get(block.id)!, ...columns]));
  draft.blocks = draft.blocks.map((each) =>
    each.id === block.id ? { ...each, columns: { ...each.columns, ...names } } : each,
  );
}

/** A record's new payload. */
export interface PayloadUpdate {
  /** The id of a record that there is. */
  readonly id: string;
  /** In the place of the payload that it has; undefined for none. */
  readonly payload?: Payload;
}

/**
 * Changes payloads and their fields in one change, or in several where one would drop more lists
 * than it may (`mostDropped`). NOT_FOUND if there is no such record.
 */
export async function updatePayloads(
  session: CollectionSession,
  updates: readonly PayloadUpdate[],
  signal: AbortSignal | undefined,
  mostDropped: number = MAX_REMOVED,
): Promise<number> {
  const payloads = new Map<string, Uint8Array>();
  for (const update of updates) {
    refuseUnknown(update, { id: true, payload: true }, 'an update', 'field');
    payloads.set(update.id, new TextEncoder().encode(checkPayload(update.payload, update.id)));
  }
  if (payloads.size > MAX_REMOVED)
    throw invalid(`at most ${MAX_REMOVED} payloads are changed at once; send fewer at a time`);
  await session.refresh();
  let left = [...payloads.keys()];
  let total = 0;
  do {
    signal?.throwIfAborted();
    const { taken, changed } = await updateSome(session, payloads, left, mostDropped, signal);
    left = left.slice(taken);
    total += changed;
  } while (left.length > 0);
  return total;
}

/** How many of these ids, from the first on, one change may be about; one at least. */
function fitting(view: View, ids: readonly string[], mostDropped: number): number {
  const blocks = new Set<ManifestBlock>();
  let dropped = 0;
  for (const [i, id] of ids.entries()) {
    const place = view.locate(id);
    if (typeof place !== 'object' || blocks.has(place.block)) continue;
    const { columns = {} } = place.block;
    dropped += 1 + Object.keys(columns).length;
    if (blocks.size > 0 && dropped > mostDropped) return i;
    blocks.add(place.block);
  }
  return ids.length;
}

function updateSome(
  session: CollectionSession,
  payloads: ReadonlyMap<string, Uint8Array>,
  ids: readonly string[],
  mostDropped: number,
  signal: AbortSignal | undefined,
): Promise<{ readonly taken: number; readonly changed: number }> {
  return session.write(async (view) => {
    const all = ids.map((id) => {
      const version = view.versionOf(id);
      if (version === undefined) throw new HersError('NOT_FOUND', `there is no record ${JSON.stringify(id)}`);
      return { id, version };
    });
    const wanted = all.slice(0, fitting(view, ids, mostDropped));
    const changed = new Map<string, PlainRecord>();
    for await (const [record, { id }] of namedRecords(session, view, wanted, signal)) {
      const now = { ...record, payload: payloads.get(id)! };
      const version = versionOf(session, now);
      if (version !== record.version) changed.set(id, { ...now, version });
    }
    const result = { taken: wanted.length, changed: changed.size };
    if (changed.size === 0) return { result };
    const draft = new Draft(view);
    const values = new Map([...changed].map(([id, record]) => [id, valuesIn(record, draft.fields)]));
    for (const of of values.values()) session.checkPartition(partitionOf(view.manifest, of));
    const byBlock = new Map<ManifestBlock, Map<number, PlainRecord>>();
    for (const [id, record] of changed) {
      const place = view.locate(id)!;
      if (place === 'pending') draft.pending.set(record.handle, record);
      else byBlock.set(place.block, (byBlock.get(place.block) ?? new Map()).set(place.slot, record));
    }
    for (const [block, records] of byBlock) await updateBlock(session, draft, block, records, values);
    draft.records.push(await session.stageRecords(view.manifest, draft.space, [...changed.values()], signal));
    draft.countSeals(changed.size);
    return { draft, result };
  });
}

function versionOf({ keyring }: CollectionSession, record: PlainRecord): string {
  const [batch] = packed([record], keyring.plan.dimension, 1);
  return keyring.records.name(batch).versionText;
}

/** The list of a block with other versions, and its columns with other values. */
async function updateBlock(
  session: CollectionSession,
  draft: Draft,
  block: ManifestBlock,
  records: ReadonlyMap<number, PlainRecord>,
  values: ReadonlyMap<string, FieldValues>,
): Promise<void> {
  const { view } = draft;
  const entries = [...view.entries.get(block.id)!];
  for (const [slot, { id, version }] of records) {
    if (partitionOf(view.manifest, values.get(id)) !== block.partition)
      throw invalid(`the record ${quoted(id)} would come into another partition: upsert it, so that it moves`);
    entries[slot] = { ...entries[slot], version };
  }
  const list = List.of(entries);
  const name = await session.stageList(draft, list, view.scoreSums.get(block.id), block.partition, block.epoch);
  draft.droppedLists.push(fromHex(block.list));
  draft.entries.set(block.id, list);
  draft.blocks = draft.blocks.map((each) => (each.id === block.id ? { ...each, list: name } : each));
  const fields = Object.keys(block.columns ?? {});
  const columns = view.columns.get(block.id)!;
  const all = Array.from({ length: block.count }, (_, slot): FieldValues => {
    const record = records.get(slot);
    if (record) return values.get(record.id)!;
    const known = fields.flatMap((field) => {
      const value = columns.get(field)!.value(slot);
      return value === undefined ? [] : [[field, value] as const];
    });
    return new Map(known);
  });
  await replaceColumns(session, draft, block, fields, all);
}
