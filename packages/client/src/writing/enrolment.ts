// Writing records: they are sealed into the vault, and encrypted into blocks as those fill.

import { freeBytes, MAX_REMOVED, Renewable, type SealedRecord, type StageId } from '@hers/service';
import { hex } from '../bytes.ts';
import { type PlainBatch, type SealedBatch, sealAt, sealsOf } from '../formats/batch.ts';
import { List } from '../formats/lists.ts';
import { type PendingRecord, type PlainRecord, valuesIn } from '../formats/records.ts';
import { Draft } from '../session/draft.ts';
import { InconsistentRead } from '../session/reader.ts';
import type { CollectionSession } from '../session/session.ts';
import { partitionOf, type View } from '../session/view.ts';

/** What writing did to one record: its version before, if it was there, and after. */
export interface Outcome {
  readonly handle: string;
  readonly before: string | undefined;
  readonly after: string;
}

/** Records and their seals, made ahead of the change that writes them. */
export interface SealedRecords {
  readonly epoch: number;
  readonly records: readonly PlainRecord[];
  /** Of these records, in their order. */
  readonly seals: readonly SealedBatch[];
  /** What the records are views of. */
  readonly plains: readonly PlainBatch[];
}

/** The sealed records at the given ascending indices. */
function chosen(seals: readonly SealedBatch[], which: readonly number[]): Renewable<SealedRecord> {
  if (seals.reduce((sum, { ends }) => sum + ends.length, 0) === which.length) return sealsOf(seals);
  return new Renewable(function* () {
    let part = 0;
    let first = 0;
    for (const i of which) {
      while (i - first >= seals[part].ends.length) first += seals[part++].ends.length;
      yield sealAt(seals[part], i - first);
    }
  });
}

/** The indices of the records that count: of equal ids, the last wins. */
function lastOfEach(records: readonly PlainRecord[]): number[] {
  const byHandle = new Map<string, number>();
  for (let i = 0; i < records.length; i++) byHandle.set(records[i].handle, i);
  const last = [...byHandle.values()];
  return last.length === records.length ? last : last.sort((a, b) => a - b);
}

function outcomesIn(view: View, records: readonly PlainRecord[], which: readonly number[]): Outcome[] {
  return which.map((i) => {
    const { id, handle, version } = records[i];
    return { handle, before: view.versionOf(id), after: version };
  });
}

/**
 * A batch on its way into the vault. Its records are staged ahead of the commit, and staged again
 * only if another client has changed which of them have to be written.
 */
export class VaultBatch {
  readonly #session: CollectionSession;
  readonly #batch: SealedRecords;
  readonly #last: readonly number[];
  readonly #signal: AbortSignal | undefined;
  #staged: { readonly epoch: number; readonly which: readonly number[]; readonly stage: Promise<StageId> } | undefined;
  /** All that was begun. */
  readonly #stages: Promise<StageId>[] = [];

  constructor(session: CollectionSession, batch: SealedRecords, signal?: AbortSignal) {
    this.#session = session;
    this.#batch = batch;
    this.#last = lastOfEach(batch.records);
    this.#signal = signal;
  }

  /** Begins to stage the records that this view lacks; returns them, and what becomes of all. */
  stage(view: View): {
    readonly outcomes: Outcome[];
    readonly fresh: readonly PlainRecord[];
    readonly stage: Promise<StageId> | undefined;
  } {
    const { records, seals } = this.#batch;
    const { epoch } = view.manifest;
    const outcomes = outcomesIn(view, records, this.#last);
    const which = this.#last.filter((_, k) => outcomes[k].before !== outcomes[k].after);
    const fresh = which.map((i) => records[i]);
    if (fresh.length === 0) return { outcomes, fresh, stage: undefined };
    const before = this.#staged;
    const same =
      before?.epoch === epoch && before.which.length === which.length && before.which.every((x, i) => x === which[i]);
    if (same) return { outcomes, fresh, stage: before.stage };
    const options = this.#signal ? { signal: this.#signal } : {};
    const session = this.#session;
    const held = () => session.held(view.manifest, fresh, chosen(seals, which));
    const stage =
      epoch === this.#batch.epoch
        ? session.service.stageRecords(session.name, held(), options)
        : session.stageRecords(view.manifest, view.space, fresh, this.#signal); // the key was rotated meanwhile
    stage.catch(() => {}); // reported when it is written
    this.#stages.push(stage);
    this.#staged = { epoch, which, stage };
    return { outcomes, fresh, stage };
  }

  async idle(): Promise<void> {
    await this.#staged?.stage.catch(() => {});
  }

  /** Writes the batch in one commit: all of it or nothing. It is the last call. */
  async write(): Promise<Outcome[]> {
    const outcomes = await this.#write();
    // Staging that another client has made useless may still read from it.
    void Promise.allSettled(this.#stages).then(() => {
      const { seals, plains } = this.#batch;
      for (const { sealed } of seals) freeBytes(sealed);
      for (const { vectors, payloads } of plains) freeBytes(vectors, payloads);
    });
    return outcomes;
  }

  #write(): Promise<Outcome[]> {
    return this.#session.write(async (view, lost) => {
      if (lost) this.#staged = undefined;
      const { outcomes: result, fresh, stage } = this.stage(view);
      if (!stage) return { result };
      const draft = new Draft(view);
      // Looking a record up takes as long as hashing it: those that are new are nowhere.
      const known = new Set(result.flatMap(({ handle, before }) => (before === undefined ? [] : [handle])));
      for (const record of fresh) {
        if (known.has(record.handle)) draft.displace(record.id, record.handle);
        draft.pending.set(record.handle, record);
      }
      // Blocks fill while records are staged; if one fails, the other is awaited all the same.
      const filling = fillBlocks(this.#session, draft, { signal: this.#signal });
      await Promise.allSettled([stage, filling]);
      await filling;
      draft.records.push(await stage);
      draft.countSeals(fresh.length);
      return { draft, result };
    });
  }
}

interface FillOptions {
  /** Records of a block; as many as it can hold by default. */
  readonly size?: number;
  /** Leave nothing pending. */
  readonly isLast?: boolean;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Turns pending records into blocks while there are enough to fill one, each of one partition; the
 * rest stays pending, or, with `isLast`, becomes blocks that are not full. In a block they take
 * slots in a random order: a store that knew which record is in which slot would learn more from
 * the candidates it is shown. Their own order is kept in the list.
 */
export async function fillBlocks(
  session: CollectionSession,
  draft: Draft,
  { size = draft.space.plan.capacity, isLast = false, signal }: FillOptions = {},
): Promise<void> {
  const valuesOf = (record: PlainRecord | PendingRecord) => valuesIn(record, draft.fields);
  const byPartition = Map.groupBy(draft.pending.values(), (record) =>
    draft.view.manifest.partitionBy === undefined ? undefined : partitionOf(draft.view.manifest, valuesOf(record)),
  );
  const jobs: Promise<void>[] = [];
  const index = async (inOrder: readonly (PlainRecord | PendingRecord)[]) => {
    const order = shuffled(inOrder.map((_, i) => i));
    const records = order.map((i) => inOrder[i]);
    const entries = records.map(({ id, version }, slot) => ({ id, version, order: order[slot] }));
    const values = records.map(valuesOf);
    await session.addBlock(draft, List.of(entries), await draft.space.projectRecords(records), values, signal);
  };
  for (const pending of byPartition.values())
    for (let at = 0; at + (isLast ? 1 : size) <= pending.length; at += size) {
      const records = pending.slice(at, at + size);
      jobs.push(index(records));
      for (const record of records) draft.pending.delete(record.handle);
    }
  await Promise.all(jobs);
}

/** A uniformly random order (Fisher and Yates). */
function shuffled<T>(things: T[]): T[] {
  for (let left = things.length; left > 1; left--) {
    const chosen = below(left);
    [things[left - 1], things[chosen]] = [things[chosen], things[left - 1]];
  }
  return things;
}

const pool = new Uint32Array(1024);
let drawn = pool.length;

/**
 * Uniform in 0 … limit − 1: numbers beyond the last whole multiple of the limit are drawn again.
 */
function below(limit: number): number {
  for (;;) {
    if (drawn === pool.length) {
      crypto.getRandomValues(pool);
      drawn = 0;
    }
    const number = pool[drawn++];
    if (number < 2 ** 32 - (2 ** 32 % limit)) return number % limit;
  }
}

/** Reads records of these versions, in an order that says nothing about slots. */
export async function* namedRecords<T extends { readonly id: string; readonly version: string }>(
  session: CollectionSession,
  view: View,
  wanted: readonly T[],
  signal?: AbortSignal,
): AsyncGenerator<readonly [PlainRecord, T]> {
  const { records } = session.keyring;
  const named = wanted
    .map((each) => ({ each, handle: hex(records.handleOf(each.id)) }))
    .sort((a, b) => (a.handle < b.handle ? -1 : 1));
  const handles = named.map(({ handle }) => handle);
  let at = 0;
  for await (const record of session.reader.records(handles, { newest: view.manifest.epoch, signal })) {
    const { each } = named[at++];
    if (record.version !== each.version)
      throw new InconsistentRead('the store gave an older copy of a record than its list names');
    yield [record, each];
  }
}

/** Deletes records, as many at a time as one change may; returns how many there were. */
export async function removeRecords(
  session: CollectionSession,
  ids: readonly string[],
  isMeant: (id: string, view: View) => boolean = () => true,
  signal?: AbortSignal,
): Promise<number> {
  const all = [...new Set(ids)];
  let removed = 0;
  for (let at = 0; at === 0 || at < all.length; at += MAX_REMOVED) {
    signal?.throwIfAborted();
    removed += await removeSome(session, all.slice(at, at + MAX_REMOVED), isMeant);
  }
  return removed;
}

function removeSome(
  session: CollectionSession,
  ids: readonly string[],
  isMeant: (id: string, view: View) => boolean,
): Promise<number> {
  return session.write(async (view) => {
    const draft = new Draft(view);
    const found = ids.filter((id) => view.locate(id) !== undefined && isMeant(id, view));
    if (found.length === 0) return { result: 0 };
    for (const id of found) {
      const handle = session.keyring.records.handleOf(id);
      draft.displace(id, hex(handle));
      draft.removed.push(handle);
    }
    return { draft, result: found.length };
  });
}
