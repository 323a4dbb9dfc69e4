// Writing records. Under `vault` enrolment they are sealed into the vault, and encrypted into blocks as those fill; under `homomorphic` enrolment each is encrypted into its
// slot and added to the open block on the store's side (the paper's Algorithm 6), and nothing else is kept of it.

import { addScoreSums, addTags, authenticate, decodeScoreSums, encodeScoreSums } from '@hers/scheme/secret';
import { MOST_REMOVED, type SealedRecord, type StageId } from '@hers/service';
import { type SealedBatch, sealAt } from './batch.ts';
import { fromHex, hex } from './bytes.ts';
import { type Changer, Draft } from './changes.ts';
import type { ManifestBlock } from './manifest.ts';
import type { PlainRecord } from './records.ts';
import type { View } from './view.ts';

/** What writing did to one record: its version before, if it was there, and after. */
export interface Outcome {
  readonly id: string;
  readonly before: string | undefined;
  readonly after: string;
}

/** Lists of an open block are put together when there are this many. */
const MAX_LISTS = 64;

/** Records and their seals, made ahead of the change that writes them. */
export interface SealedRecords {
  readonly epoch: number;
  readonly records: readonly PlainRecord[];
  /** Of these records, in their order. */
  readonly seals: readonly SealedBatch[];
}

/** Some of the seals of a batch; `which` ascends. */
function* chosen(seals: readonly SealedBatch[], which: readonly number[]): Generator<SealedRecord> {
  let part = 0;
  let first = 0;
  for (const i of which) {
    while (i - first >= seals[part].ends.length) first += seals[part++].ends.length;
    yield sealAt(seals[part], i - first);
  }
}

/** Which records of a batch count: later ones of the same id win. */
function lastOfEach(records: readonly PlainRecord[]): number[] {
  const byHandle = new Map<string, number>();
  records.forEach((record, i) => {
    byHandle.set(record.handle, i);
  });
  const last = [...byHandle.values()];
  return last.length === records.length ? last : last.sort((a, b) => a - b);
}

/** Those of them that the view has not, or not so. */
function changedIn(view: View, records: readonly PlainRecord[], which: readonly number[]): number[] {
  return which.filter((i) => view.versionOf(records[i].id, records[i].handle) !== records[i].version);
}

/** What writing these on top of the view does. */
function outcomesIn(view: View, records: readonly PlainRecord[], which: readonly number[]): Outcome[] {
  return which.map((i) => {
    const { id, handle, version } = records[i];
    return { id, before: view.versionOf(id, handle), after: version };
  });
}

/** A batch on its way into the vault. Its records are staged ahead of the change that writes them, and again only when others have changed what there is to write. */
export class VaultBatch {
  readonly #changer: Changer;
  readonly #batch: SealedRecords;
  readonly #last: readonly number[];
  readonly #signal: AbortSignal | undefined;
  #staged: { readonly epoch: number; readonly which: readonly number[]; readonly stage: Promise<StageId> } | undefined;

  constructor(changer: Changer, batch: SealedRecords, signal?: AbortSignal) {
    this.#changer = changer;
    this.#batch = batch;
    this.#last = lastOfEach(batch.records);
    this.#signal = signal;
  }

  /** Begins to stage what this view has not; returns those records. */
  stage(view: View): { readonly fresh: readonly PlainRecord[]; readonly stage: Promise<StageId> | undefined } {
    const { records, seals } = this.#batch;
    const { epoch } = view.manifest;
    const which = changedIn(view, records, this.#last);
    const fresh = which.map((i) => records[i]);
    if (fresh.length === 0) return { fresh, stage: undefined };
    const before = this.#staged;
    const same =
      before?.epoch === epoch && before.which.length === which.length && before.which.every((x, i) => x === which[i]);
    if (same) return { fresh, stage: before.stage };
    const options = this.#signal ? { signal: this.#signal } : {};
    const stage =
      epoch === this.#batch.epoch
        ? this.#changer.service.stageRecords(this.#changer.name, chosen(seals, which), options)
        : this.#changer.stageRecords(view.space, fresh, this.#signal); // the key was rotated meanwhile
    stage.catch(() => {}); // who writes it hears of it
    this.#staged = { epoch, which, stage };
    return { fresh, stage };
  }

  async idle(): Promise<void> {
    await this.#staged?.stage.catch(() => {});
  }

  /** Writes the batch in one commit: all of it or nothing. */
  write(): Promise<Outcome[]> {
    const { n } = this.#changer.keyring.plan.parameters;
    return this.#changer.change(async (view, lost) => {
      if (lost) this.#staged = undefined;
      const { fresh, stage } = this.stage(view);
      const result = outcomesIn(view, this.#batch.records, this.#last);
      if (!stage) return { result };
      const draft = new Draft(view);
      for (const record of fresh) {
        draft.displace(record.id, record.handle);
        draft.pending.set(record.handle, record);
      }
      // Blocks fill while records are staged; neither is left under way when the other fails.
      const filling = fillBlocks(this.#changer, draft, n, this.#signal);
      await Promise.allSettled([stage, filling]);
      await filling;
      draft.records.push(await stage);
      draft.countSeals(fresh.length);
      return { draft, result };
    });
  }
}

/**
 * Turns waiting records into blocks of `size` as long as there are enough; the rest waits on. In a block they take slots in an order that nobody knows: a store that could tell which
 * record is in which slot would learn more from the candidates that it is shown. Their own order is kept in the list.
 */
export async function fillBlocks(changer: Changer, draft: Draft, size: number, signal?: AbortSignal): Promise<void> {
  const waiting = [...draft.pending.values()];
  const jobs: Promise<void>[] = [];
  const index = async (inOrder: typeof waiting) => {
    const order = shuffled(inOrder.map((_, i) => i));
    const records = order.map((i) => inOrder[i]);
    const entries = records.map(({ id, version }, slot) => ({ id, version, order: order[slot] }));
    await changer.addBlock(draft, entries, await draft.space.projectRecords(records), signal);
  };
  for (let at = 0; at + size <= waiting.length && size > 0; at += size) {
    const records = waiting.slice(at, at + size);
    jobs.push(index(records));
    for (const record of records) draft.pending.delete(record.handle);
  }
  await Promise.all(jobs);
}

/** Any order is as likely as any other (Fisher and Yates). */
function shuffled<T>(things: T[]): T[] {
  for (let left = things.length; left > 1; left--) {
    const chosen = below(left);
    [things[left - 1], things[chosen]] = [things[chosen], things[left - 1]];
  }
  return things;
}

const pool = new Uint32Array(1024);
let drawn = pool.length;

/** Uniform in 0 … limit − 1: numbers beyond the last whole multiple of the limit are drawn again. */
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

/** The block that takes the next addition, if any does: the newest, unless it is full, has taken as many as it may, or was begun by an older program and has no tag. */
function openBlock({ manifest }: View, n: number, maxAdditions: number): TaggedBlock | undefined {
  const block = manifest.blocks.at(-1);
  if (!block || block.epoch !== manifest.epoch || block.tag === undefined) return undefined;
  return block.count < n && block.additions < maxAdditions ? { ...block, tag: block.tag } : undefined;
}

type TaggedBlock = ManifestBlock & { readonly tag: string };

/** Adds records to the open block, as many as fit, in one commit; the caller goes on with the rest. Returns how many of the batch were dealt with. */
export function addHomomorphically(
  changer: Changer,
  batch: readonly PlainRecord[],
  signal?: AbortSignal,
): Promise<{ readonly outcomes: Outcome[]; readonly taken: number }> {
  const { n } = changer.keyring.plan.parameters;
  return changer.change(async (view) => {
    const open = openBlock(view, n, view.space.plan.maxAdditions);
    const room = n - (open?.count ?? 0);
    const part = batch.slice(0, room);
    const last = lastOfEach(part);
    const fresh = changedIn(view, part, last).map((i) => part[i]);
    const result = { outcomes: outcomesIn(view, part, last), taken: part.length };
    if (fresh.length === 0) return { result };
    const draft = new Draft(view);
    for (const record of fresh) draft.displace(record.id, record.handle);
    const entries = fresh.map(({ id, version }) => ({ id, version }));
    const vectors = await draft.space.projectRecords(fresh);
    if (open) await addToOpen(changer, draft, open, entries, vectors, signal);
    else await changer.addBlock(draft, entries, vectors, signal);
    return { draft, result };
  });
}

async function addToOpen(
  changer: Changer,
  draft: Draft,
  open: TaggedBlock,
  entries: readonly { id: string; version: string }[],
  vectors: Float32Array,
  signal?: AbortSignal,
): Promise<void> {
  const crew = await draft.space.crew();
  const { block: part, sums } = await crew.encrypt(vectors, open.count);
  const { plan } = draft.space;
  const { parameters } = plan;
  const before = draft.scoreSums.get(open.id);
  const both =
    before && sums
      ? encodeScoreSums(addScoreSums(decodeScoreSums(plan, before), decodeScoreSums(plan, sums)))
      : undefined;
  const tag = hex(addTags(parameters, fromHex(open.tag), authenticate(draft.space.key(), part)));
  signal?.throwIfAborted();
  const stage = await changer.service.stageBlock(changer.name, [part], signal ? { signal } : {});
  const result = crypto.getRandomValues(new Uint8Array(16));
  draft.sums.push({ base: fromHex(open.id), part: stage, result, maxAdditions: draft.space.plan.maxAdditions });
  const all = [...draft.entries.get(open.id)!, ...entries];
  let lists = open.lists;
  if (lists.length + 1 >= MAX_LISTS) {
    for (const list of lists) draft.droppedLists.push(fromHex(list));
    lists = [await changer.stageList(draft, all, both)];
  } else {
    lists = [...lists, await changer.stageList(draft, entries, sums)];
  }
  draft.entries.delete(open.id);
  draft.entries.set(hex(result), all);
  draft.scoreSums.delete(open.id);
  if (both) draft.scoreSums.set(hex(result), both);
  draft.blocks = draft.blocks.map((block) =>
    block.id === open.id
      ? { ...block, id: hex(result), hash: '', tag, count: all.length, additions: block.additions + 1, lists }
      : block,
  );
  draft.movedBlock(open.id, hex(result));
}

/** Deletes records, as many at a time as one change may; returns how many there were. */
export async function removeRecords(changer: Changer, ids: readonly string[]): Promise<number> {
  const all = [...new Set(ids)];
  let removed = 0;
  for (let at = 0; at === 0 || at < all.length; at += MOST_REMOVED)
    removed += await removeSome(changer, all.slice(at, at + MOST_REMOVED));
  return removed;
}

function removeSome(changer: Changer, ids: readonly string[]): Promise<number> {
  return changer.change(async (view) => {
    const draft = new Draft(view);
    const found = ids.filter((id) => view.locate(id) !== undefined);
    if (found.length === 0) return { result: 0 };
    for (const id of found) {
      const handle = changer.keyring.records.handleOf(id);
      draft.displace(id, hex(handle));
      draft.removed.push(handle);
    }
    return { draft, result: found.length };
  });
}
