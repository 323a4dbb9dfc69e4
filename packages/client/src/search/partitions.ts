// Calls that name partitions: what of a view they are about.

import { HersError } from '@hers/service';
import { liveCount } from '../formats/manifest.ts';
import type { CollectionSession } from '../session/session.ts';
import { partitionOf, type View } from '../session/view.ts';
import type { ScanPart } from './scan.ts';

/** INVALID_ARGUMENT unless it names partitions, or is undefined, which means all. */
export function checkPartitions(partitions: unknown): asserts partitions is readonly string[] | undefined {
  if (partitions === undefined) return;
  if (!Array.isArray(partitions) || partitions.length === 0 || partitions.some((each) => typeof each !== 'string'))
    throw new HersError('INVALID_ARGUMENT', "partitions is a list of names, such as ['site-1']");
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
    throw new HersError(
      'INVALID_ARGUMENT',
      'this collection has no partitions: they are named when it is made (partitionBy)',
    );
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
