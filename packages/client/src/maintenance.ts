// What a key holder does to a collection now and then: indexing what waits, making deletions final, changing keys. Each step is one commit, so an interrupted run goes on
// where it stopped, and the collection can be searched throughout.

import { decodeBlock } from '@hers/scheme';
import { authenticate, decryptBlock, sameTag } from '@hers/scheme/secret';
import { HersError } from '@hers/service';
import { fromHex, hex, joined, sha256 } from './bytes.ts';
import { type Changer, Draft } from './changes.ts';
import { fillBlocks } from './enrolment.ts';
import { PART_BYTES } from './gathering.ts';
import { inOrder, type ListEntry } from './lists.ts';
import type { Manifest, ManifestBlock } from './manifest.ts';
import { type PlainRecord, WaitingRecord } from './records.ts';
import { needsVault } from './search.ts';
import type { Model, Space } from './space.ts';
import { OutOfStep, readRecords, type View } from './view.ts';

export interface MaintenanceOptions {
  readonly signal?: AbortSignal;
  /** Blocks done, and blocks there were to do. */
  readonly onProgress?: (progress: { readonly done: number; readonly total: number }) => void;
}

/** Blocks rewritten in one commit: bounds the memory it takes. */
const BLOCKS_AT_ONCE = 8;

/** Indexes what waits and rewrites blocks that hold deleted records or are not full, then has the store forget what is gone. */
export async function optimise(changer: Changer, options: MaintenanceOptions): Promise<void> {
  const { n } = changer.keyring.plan.parameters;
  const isDirty = (block: ManifestBlock) => block.dead.length > 0 || block.count < n;
  await changer.refresh();
  let view = await changer.view();
  // A single block that is only not full stays as it is: there is nothing to put it together with.
  const worthIt = ({ manifest }: View) => {
    const dirty = manifest.blocks.filter(isDirty);
    return dirty.length > 1 || manifest.pending.length > 0 || dirty.some((block) => block.dead.length > 0);
  };
  if (worthIt(view)) {
    const todo = new Set(view.manifest.blocks.filter(isDirty).map((block) => block.id));
    await rewrite(changer, (block) => todo.has(block.id), view.manifest.epoch, options);
    view = await changer.view();
  }
  options.signal?.throwIfAborted();
  await changer.service.purge(changer.name, options.signal ? { signal: options.signal } : {});
}

/** Re-encrypts everything under the next epoch; an interrupted rotation is taken up again. */
export async function rotate(changer: Changer, options: MaintenanceOptions): Promise<number> {
  const view = await changer.refresh();
  const { manifest } = view;
  if (!isUnfinished(manifest)) await nextEpoch(changer, ({ space }) => space.model, options.signal);
  return finishEpoch(changer, options);
}

/** Indexes everything anew through another compressor, or without one. The same call again takes up an interrupted one. */
export async function reindex(changer: Changer, model: Model | undefined, options: MaintenanceOptions): Promise<void> {
  const { space, manifest } = await changer.refresh();
  const same = space.model?.digest === model?.digest;
  if (same && !isUnfinished(manifest)) return;
  if (!same) {
    if (changer.keyring.descriptor.enrolment !== 'vault' && manifest.blocks.length > 0)
      throw needsVault('another compressor');
    await nextEpoch(changer, () => model, options.signal);
  }
  await finishEpoch(changer, options);
}

function isUnfinished({ blocks, epoch }: Manifest): boolean {
  return blocks.some((block) => block.epoch !== epoch);
}

/** Begins an epoch, with the compressor that `modelOf` names. */
function nextEpoch(
  changer: Changer,
  modelOf: (view: View) => Model | undefined,
  signal: AbortSignal | undefined,
): Promise<void> {
  return changer.change(async (view) => {
    const draft = new Draft(view, view.manifest.epoch + 1);
    await changer.setModel(draft, modelOf(view));
    // Waiting records change over together with the epoch, so that none is left behind.
    await carryOver(changer, draft, [...view.pending.values()], true, signal);
    return { draft, result: undefined };
  });
}

/** Moves to the current epoch what is not there yet, and has the store forget the rest. */
async function finishEpoch(changer: Changer, options: MaintenanceOptions): Promise<number> {
  const { epoch } = (await changer.view()).manifest;
  await rewrite(changer, (block) => block.epoch !== epoch, epoch, options);
  await changer.service.purge(changer.name, options.signal ? { signal: options.signal } : {});
  return epoch;
}

/** Puts the live records of the chosen blocks into new blocks under `epoch`, a few at a time; what is left over at the end forms one that is not full. */
export async function rewrite(
  changer: Changer,
  chosen: (block: ManifestBlock) => boolean,
  epoch: number,
  { signal, onProgress }: MaintenanceOptions,
): Promise<void> {
  const { descriptor } = changer.keyring;
  const total = (await changer.view()).manifest.blocks.filter(chosen).length;
  let done = 0;
  for (let last = false; !last; ) {
    signal?.throwIfAborted();
    const decrypted = new Map<string, Int32Array>();
    const step = await changer.change(async (view) => {
      // Another client has begun a newer epoch, and moves everything there.
      if (view.manifest.epoch !== epoch) return { result: { blocks: 0, last: true } };
      const blocks = view.manifest.blocks.filter(chosen);
      const part = blocks.slice(0, BLOCKS_AT_ONCE);
      const result = { blocks: part.length, last: part.length === blocks.length };
      const draft = new Draft(view, epoch);
      if (descriptor.enrolment === 'vault') await rewriteFromVault(changer, draft, part, result.last, signal);
      else await rewriteByDecrypting(changer, draft, part, decrypted, signal);
      const idle = part.length === 0 && draft.newBlocks.length === 0;
      return idle ? { result } : { draft, result };
    });
    done += step.blocks;
    last = step.last;
    onProgress?.({ done: Math.min(done, total), total });
  }
}

function liveEntries(view: View, block: ManifestBlock): { entry: ListEntry; slot: number }[] {
  const dead = new Set(block.dead);
  return inOrder(view.entries.get(block.id)!).filter(({ slot }) => !dead.has(slot));
}

/** Reads records of these versions, and returns what blocks are made of; where asked to, seals and stages them under the draft's epoch, a part at a time. */
async function carryOver(
  changer: Changer,
  draft: Draft,
  named: readonly { readonly handle: string; readonly version: string }[],
  reseal: boolean,
  signal?: AbortSignal,
): Promise<WaitingRecord[]> {
  const { keyring, service, name } = changer;
  const kept = new Map<string, WaitingRecord>();
  let part: PlainRecord[] = [];
  let bytes = 0;
  const stage = async () => {
    if (part.length === 0) return;
    draft.records.push(await changer.stageRecords(draft.space, part, signal));
    draft.countSeals(part.length);
    // What is indexed later is what was sealed now.
    for (const record of part) kept.set(record.handle, WaitingRecord.of(record, draft.space.projectionOf(record)));
    part = [];
    bytes = 0;
  };
  // In an order that says nothing about slots.
  const wanted = named.toSorted((a, b) => (a.handle < b.handle ? -1 : 1));
  const handles = wanted.map(({ handle }) => handle);
  const newest = draft.view.manifest.epoch;
  let at = 0;
  for await (const record of readRecords(service, name, keyring, handles, { newest, signal })) {
    if (record.version !== wanted[at++].version)
      throw new OutOfStep('the store gave an older copy of a record than its list names');
    if (!reseal) {
      kept.set(record.handle, WaitingRecord.of(record));
      continue;
    }
    part.push(record);
    bytes += record.payload.length;
    if (part.length === keyring.plan.parameters.n || bytes >= PART_BYTES) await stage();
  }
  await stage();
  return named.map(({ handle }) => kept.get(handle)!);
}

async function rewriteFromVault(
  changer: Changer,
  draft: Draft,
  blocks: readonly ManifestBlock[],
  last: boolean,
  signal?: AbortSignal,
): Promise<void> {
  const { keyring } = changer;
  const moved: WaitingRecord[] = [];
  for (const block of blocks) {
    const named = liveEntries(draft.view, block).map(({ entry: { id, version } }) => ({
      handle: hex(keyring.records.handleOf(id)),
      version,
    }));
    // Under a new epoch the seals change too.
    for (const record of await carryOver(changer, draft, named, block.epoch !== draft.epoch, signal))
      moved.push(record);
    draft.dropBlock(block);
  }
  for (const record of moved) draft.gone.add(record.id);
  for (const record of moved) draft.pending.set(record.handle, record);
  await fillBlocks(changer, draft, keyring.plan.parameters.n, signal);
  if (last && draft.pending.size > 0) await fillBlocks(changer, draft, draft.pending.size, signal);
}

/**
 * The rows of a block that the store gave for one of the manifest. Nothing is decrypted that is not what was added up in it: what it decrypts to decides what the client does next, and
 * the store may have chosen it. The sums of older programs have no tag; of them at least what can be compared is.
 */
function openBlock(space: Space, block: ManifestBlock, encoded: Uint8Array): Int32Array {
  const refuse = (): never => {
    throw new HersError('INTEGRITY', 'the store gave another block than the manifest names');
  };
  const key = space.key();
  const given = decodeBlock(encoded);
  if (hex(given.blockId) !== block.id || given.first !== 0) return refuse();
  if (given.count !== block.count || given.additions !== block.additions) return refuse();
  if (block.tag !== undefined && !sameTag(authenticate(key, given), fromHex(block.tag))) return refuse();
  return decryptBlock(key, encoded).integers!;
}

/** `decrypted` holds the rows of blocks that were read before for the same step: none is decrypted twice, whatever the store answers to a commit. */
async function rewriteByDecrypting(
  changer: Changer,
  draft: Draft,
  blocks: readonly ManifestBlock[],
  decrypted: Map<string, Int32Array>,
  signal?: AbortSignal,
): Promise<void> {
  const { service, name } = changer;
  const { dimension, parameters } = draft.space.plan;
  const entries: ListEntry[] = [];
  const rows: Int32Array[] = [];
  for (const block of blocks) {
    let integers = decrypted.get(block.id);
    if (!integers) {
      const encoded = await joined(service.getBlock(name, fromHex(block.id), signal ? { signal } : {}));
      if (block.hash !== '' && hex(await sha256(encoded)) !== block.hash)
        throw new HersError('INTEGRITY', 'the store gave another block than the manifest names');
      integers = openBlock(draft.view.spaces.get(block.epoch)!, block, encoded);
      decrypted.set(block.id, integers);
    }
    for (const { entry, slot } of liveEntries(draft.view, block)) {
      entries.push({ id: entry.id, version: entry.version });
      rows.push(integers.subarray(slot * dimension, (slot + 1) * dimension));
      draft.gone.add(entry.id);
    }
    draft.dropBlock(block);
  }
  for (let at = 0; at < entries.length; at += parameters.n) {
    const part = rows.slice(at, at + parameters.n);
    const vectors = new Int32Array(part.length * dimension);
    part.forEach((row, j) => {
      vectors.set(row, j * dimension);
    });
    await changer.addBlock(draft, entries.slice(at, at + parameters.n), vectors, signal);
  }
}
