// Writing records. Under `vault` enrolment they are sealed into the vault, and encrypted into blocks as those fill; under `homomorphic` enrolment each is encrypted into its
// slot and added to the open block on the store's side (the paper's Algorithm 6), and nothing else is kept of it.

import type { StageId } from '@hers/service';
import { fromHex, hex } from './bytes.ts';
import { type Changer, Draft, packVectors } from './changes.ts';
import type { ManifestBlock } from './manifest.ts';
import type { PlainRecord } from './records.ts';
import type { View } from './view.ts';

export interface Written {
  /** Records that are new or have new content. */
  readonly written: number;
  /** Records that were there already, exactly so. */
  readonly unchanged: number;
}

/** Lists of an open block are put together when there are this many. */
const MAX_LISTS = 64;

/** Later records of the same id win. */
function lastOfEach(records: readonly PlainRecord[]): PlainRecord[] {
  const byHandle = new Map<string, PlainRecord>();
  for (const record of records) {
    byHandle.delete(record.handle);
    byHandle.set(record.handle, record);
  }
  return [...byHandle.values()];
}

function changedIn(view: View, records: readonly PlainRecord[]): PlainRecord[] {
  return records.filter((record) => view.versionOf(record.id, record.handle) !== record.version);
}

/** Writes a batch in one commit: all of it or nothing. */
export function writeToVault(changer: Changer, batch: readonly PlainRecord[], signal?: AbortSignal): Promise<Written> {
  const records = lastOfEach(batch);
  const { plan } = changer.keyring;
  const { n } = plan.parameters;
  let staged: { stage: StageId; epoch: number; records: readonly PlainRecord[] } | undefined;
  return changer.change(async (view) => {
    const fresh = changedIn(view, records);
    const result = { written: fresh.length, unchanged: batch.length - fresh.length };
    if (fresh.length === 0) return { result };
    const draft = new Draft(view);
    // What was staged for an earlier attempt serves again, unless others have changed what there is to write.
    if (
      staged?.epoch !== draft.epoch ||
      staged.records.length !== fresh.length ||
      staged.records.some((r, i) => r !== fresh[i])
    ) {
      staged = { stage: await changer.stageRecords(draft, fresh, signal), epoch: draft.epoch, records: fresh };
    }
    draft.records.push(staged.stage);
    draft.countSeals(fresh.length);
    for (const record of fresh) {
      draft.displace(record.id, record.handle);
      draft.pending.set(record.handle, record);
    }
    await fillBlocks(changer, draft, n, signal);
    return { draft, result };
  });
}

/** Turns waiting records into blocks of `size` as long as there are enough; the rest waits on. */
export async function fillBlocks(changer: Changer, draft: Draft, size: number, signal?: AbortSignal): Promise<void> {
  const waiting = [...draft.pending.values()];
  const jobs: Promise<void>[] = [];
  let at = 0;
  for (; at + size <= waiting.length && size > 0; at += size) {
    const records = waiting.slice(at, at + size);
    const entries = records.map(({ id, version }) => ({ id, version }));
    jobs.push(changer.addBlock(draft, entries, packVectors(records, changer.keyring.plan.dimension), signal));
    for (const record of records) draft.pending.delete(record.handle);
  }
  await Promise.all(jobs);
}

/** The block that takes the next addition, if any does: the newest, unless it is full or has taken as many as it may. */
function openBlock({ manifest }: View, n: number, maxAdditions: number): ManifestBlock | undefined {
  const block = manifest.blocks.at(-1);
  return block && block.epoch === manifest.epoch && block.count < n && block.additions < maxAdditions
    ? block
    : undefined;
}

/** Adds records to the open block, as many as fit, in one commit; the caller goes on with the rest. Returns how many of the batch were dealt with. */
export function addHomomorphically(
  changer: Changer,
  batch: readonly PlainRecord[],
  signal?: AbortSignal,
): Promise<Written & { readonly taken: number }> {
  const { plan } = changer.keyring;
  const { n } = plan.parameters;
  return changer.change(async (view) => {
    const open = openBlock(view, n, plan.maxAdditions);
    const room = n - (open?.count ?? 0);
    const part = batch.slice(0, room);
    const fresh = changedIn(view, lastOfEach(part));
    const result = { written: fresh.length, unchanged: part.length - fresh.length, taken: part.length };
    if (fresh.length === 0) return { result };
    const draft = new Draft(view);
    for (const record of fresh) draft.displace(record.id, record.handle);
    const entries = fresh.map(({ id, version }) => ({ id, version }));
    const vectors = packVectors(fresh, plan.dimension);
    if (open) await addToOpen(changer, draft, open, entries, vectors, signal);
    else await changer.addBlock(draft, entries, vectors, signal);
    return { draft, result };
  });
}

async function addToOpen(
  changer: Changer,
  draft: Draft,
  open: ManifestBlock,
  entries: readonly { id: string; version: string }[],
  vectors: Float32Array,
  signal?: AbortSignal,
): Promise<void> {
  const crew = await changer.keyring.crew(draft.epoch);
  const part = await crew.encrypt(vectors, open.count);
  signal?.throwIfAborted();
  const stage = await changer.service.stageBlock(changer.name, [part], signal ? { signal } : {});
  const result = crypto.getRandomValues(new Uint8Array(16));
  draft.sums.push({ base: fromHex(open.id), part: stage, result, maxAdditions: changer.keyring.plan.maxAdditions });
  const all = [...draft.entries.get(open.id)!, ...entries];
  let lists = open.lists;
  if (lists.length + 1 >= MAX_LISTS) {
    for (const list of lists) draft.droppedLists.push(fromHex(list));
    lists = [await changer.stageList(draft, all)];
  } else {
    lists = [...lists, await changer.stageList(draft, entries)];
  }
  draft.entries.delete(open.id);
  draft.entries.set(hex(result), all);
  draft.blocks = draft.blocks.map((block) =>
    block.id === open.id
      ? { ...block, id: hex(result), hash: '', count: all.length, additions: block.additions + 1, lists }
      : block,
  );
  draft.movedBlock(open.id, hex(result));
}

/** Deletes records; returns how many there were. */
export function removeRecords(changer: Changer, ids: readonly string[]): Promise<number> {
  return changer.change(async (view) => {
    const draft = new Draft(view);
    const found = [...new Set(ids)].filter((id) => view.locate(id) !== undefined);
    if (found.length === 0) return { result: 0 };
    for (const id of found) {
      const handle = changer.keyring.records.handleOf(id);
      draft.displace(id, hex(handle));
      draft.removed.push(handle);
    }
    return { draft, result: found.length };
  });
}
