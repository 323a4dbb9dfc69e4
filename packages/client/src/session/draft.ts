// A draft of a change, based on one view: what is staged for it, and its manifest. And the
// evaluation keys of a space under the profile `open`: what its store expands queries and packs
// responses with (packages/scheme/README.md §9).

import type { StageId } from '@hers/service';
import { fromHex, hex } from '../bytes.ts';
import { type Fields, invalid } from '../fields/field.ts';
import type { BlockColumns, List } from '../formats/lists.ts';
import {
  evaluationListsOf,
  historyAfter,
  type Manifest,
  type ManifestBlock,
  type ManifestCompressor,
  type ManifestDevice,
  type ManifestEvaluation,
} from '../formats/manifest.ts';
import { type PendingRecord, type PlainRecord, valuesIn } from '../formats/records.ts';
import type { Space } from '../keys/space.ts';
import type { CollectionSession } from './session.ts';
import { partitionOf, type View } from './view.ts';

/** Seals under one epoch; random nonces of 96 bits may collide beyond 2^32 of them. */
const MAX_SEALS = 2 ** 31;

export class Draft {
  readonly view: View;
  readonly epoch: number;
  blocks: ManifestBlock[];
  /** Those with a payload come from this change; only what is needed of them is kept afterwards. */
  readonly pending: Map<string, PlainRecord | PendingRecord>;
  readonly entries: Map<string, List>;
  readonly scoreSums: Map<string, Uint8Array>;
  readonly columns: Map<string, BlockColumns>;
  fields: Fields;
  readonly spaces: Map<number, Space>;
  /** The one that new blocks are in. */
  space: Space;
  compressors: readonly ManifestCompressor[];
  devices: readonly ManifestDevice[];
  evaluation: readonly ManifestEvaluation[];
  /** Under way for the epochs of new blocks: evaluation keys that are being staged. */
  readonly evaluating: Map<number, Promise<void>> = new Map();
  readonly records: StageId[] = [];
  readonly removed: Uint8Array[] = [];
  readonly newBlocks: StageId[] = [];
  readonly dropped: Uint8Array[] = [];
  readonly lists: StageId[] = [];
  readonly droppedLists: Uint8Array[] = [];
  /** Of the manifest that this draft was sealed as, once it was. */
  hash: string | undefined;
  readonly #dead = new Map<string, Set<number>>();
  #seals = 0;

  constructor(view: View, epoch: number = view.manifest.epoch) {
    this.view = view;
    this.epoch = epoch;
    this.blocks = [...view.manifest.blocks];
    this.pending = new Map(view.pending);
    this.entries = new Map(view.entries);
    this.scoreSums = new Map(view.scoreSums);
    this.columns = new Map(view.columns);
    this.fields = view.manifest.fields;
    this.spaces = new Map(view.spaces);
    this.space = view.space;
    this.compressors = view.manifest.compressors;
    this.devices = view.manifest.devices ?? [];
    this.evaluation = view.manifest.evaluation;
  }

  /** Leaves out what belongs to epochs without blocks, unless other partitions may have some. */
  dropUnused(isWhole: boolean): void {
    const used = new Set([this.epoch, ...this.blocks.map((block) => block.epoch)]);
    if (isWhole) {
      for (const { epoch, lists } of this.compressors)
        if (!used.has(epoch)) for (const list of lists) this.droppedLists.push(fromHex(list));
      for (const each of this.evaluation)
        if (!used.has(each.epoch)) for (const list of evaluationListsOf(each)) this.droppedLists.push(fromHex(list));
      this.compressors = this.compressors.filter(({ epoch }) => used.has(epoch));
      this.evaluation = this.evaluation.filter(({ epoch }) => used.has(epoch));
    }
    for (const epoch of this.spaces.keys()) if (!used.has(epoch)) this.spaces.delete(epoch);
  }

  /** Leaves out the evaluation keys of a device: it was revoked, or gets others. */
  dropDeviceKeys(secret: number): void {
    this.evaluation = this.evaluation.map((each) => {
      const { devices, ...rest } = each;
      const { [secret]: list, ...others } = devices ?? {};
      if (list === undefined) return each;
      this.droppedLists.push(fromHex(list));
      return Object.keys(others).length > 0 ? { ...rest, devices: others } : rest;
    });
  }

  /** Removes a record from its place; the same change may put it elsewhere. */
  displace(id: string, handle: string): void {
    const place = this.view.locate(id);
    if (place === undefined) return;
    if (this.pending.delete(handle) || place === 'pending') return;
    let dead = this.#dead.get(place.block.id);
    if (!dead) this.#dead.set(place.block.id, (dead = new Set(place.block.dead)));
    dead.add(place.slot);
  }

  dropBlock(block: ManifestBlock): void {
    this.blocks = this.blocks.filter((b) => b.id !== block.id);
    this.entries.delete(block.id);
    this.scoreSums.delete(block.id);
    this.columns.delete(block.id);
    this.dropped.push(fromHex(block.id));
    for (const list of [block.list, ...Object.values(block.columns ?? {})]) this.droppedLists.push(fromHex(list));
  }

  countSeals(count: number): void {
    this.#seals += count;
  }

  manifest(): Manifest {
    const { manifest } = this.view;
    const seals = (this.epoch === manifest.epoch ? manifest.seals : 0) + this.#seals;
    if (seals > MAX_SEALS)
      throw invalid('this key has sealed as much as it safely can; rotate the key of the collection');
    const pending = [...this.pending.values()].map((record) => ({
      handle: record.handle,
      version: record.version,
      ...(manifest.sections ? { partition: partitionOf(manifest, valuesIn(record, manifest.fields)) } : {}),
    }));
    const blocks = this.blocks.map((block) => {
      const dead = this.#dead.get(block.id);
      return dead ? { ...block, dead: [...dead].sort((a, b) => a - b) } : block;
    });
    return {
      version: manifest.version + 1,
      epoch: this.epoch,
      seals,
      blocks,
      pending,
      compressors: this.compressors,
      ...(this.devices.length > 0 ? { devices: this.devices } : {}),
      evaluation: this.evaluation,
      fields: this.fields,
      ...(manifest.partitionBy === undefined ? {} : { partitionBy: manifest.partitionBy }),
      // Those before; they are sealed again when this is.
      ...(manifest.sections ? { sections: manifest.sections } : {}),
      history: historyAfter(this.view.hash, manifest.history),
    };
  }
}

/** The secret that the key holder's own queries are encrypted under: that of the public key. */
export const OWN_DEVICE = 0;

/** The evaluation keys of a space, where a manifest names some that belong to its key. */
export function evaluationOf(
  { evaluation }: Pick<Manifest, 'evaluation'>,
  space: Space,
): ManifestEvaluation | undefined {
  const keyId = hex(space.key().keyId);
  return evaluation.find((each) => each.epoch === space.epoch && each.keyId === keyId);
}

/** The devices that have keys of their own, made for the key of this space. */
export function ownedDevices(devices: readonly ManifestDevice[], space: Space): number[] {
  const keyId = hex(space.key().keyId);
  return devices.flatMap(({ own, revoked }) => (own?.keyId === keyId && revoked === undefined ? [own.secret] : []));
}

/** Makes evaluation keys where a collection with open queries has none: when it is new, say. */
export function completeEvaluation(session: CollectionSession): Promise<void> {
  return session.write(async (view) => {
    const { manifest } = view;
    const open = [...view.spaces.values()].filter(({ plan }) => plan.profile === 'open');
    const missing = open.filter((space) => !evaluationOf(manifest, space));
    const devices = open.flatMap((space) => {
      const found = evaluationOf(manifest, space);
      const lacking = ownedDevices(manifest.devices ?? [], space).filter((secret) => !found?.devices?.[secret]);
      return found ? lacking.map((secret) => [space, secret] as const) : [];
    });
    if (missing.length + devices.length === 0) return { result: undefined };
    const draft = new Draft(view);
    for (const space of missing) await session.evaluate(draft, space);
    for (const [space, secret] of devices) await session.evaluateDevice(draft, space, secret);
    return { draft, result: undefined };
  });
}
