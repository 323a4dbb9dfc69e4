// Shared by tests: what keys are derived from, written again from docs/formats.md §4 with Node's
// own HKDF.

import { createHmac, hkdfSync } from 'node:crypto';
import { PROFILES } from '../src/parameters.ts';
import { METRICS, type Plan } from '../src/plan.ts';
import type { QueryDraw } from '../src/secret/key.ts';

/** What a master seed gives for a label, in the context of a collection and an epoch. */
export function derivedSlowly(
  master: Uint8Array,
  label: string,
  {
    plan,
    collectionId,
    epoch = 0,
  }: { readonly plan: Plan; readonly collectionId: Uint8Array; readonly epoch?: number },
  length = 32,
): Uint8Array {
  const context = Buffer.alloc(64);
  context.set(collectionId);
  context.writeUInt32LE(epoch, 16);
  context.writeUInt32LE(plan.dimension, 20);
  context.writeUInt16LE(plan.parameters.id, 24);
  context.writeUInt8(METRICS.indexOf(plan.metric), 26);
  context.writeUInt8(PROFILES.indexOf(plan.profile), 27);
  for (const [i, bound] of [plan.galleryScale, plan.queryScale, plan.normBound, plan.queryNormBound].entries())
    context.writeDoubleLE(bound, 32 + 8 * i);
  const info = Buffer.concat([Buffer.from(`${label}\0`), context]);
  return new Uint8Array(hkdfSync('sha256', master, 'HERS v1', info, length));
}

/** What result secret and errors of a query are expanded from. */
export function querySeedSlowly(key: Uint8Array, { random, queryId, values }: QueryDraw): Uint8Array {
  const probe = Buffer.alloc(4 * values.length);
  for (const [i, value] of values.entries()) probe.writeInt32LE(value, 4 * i);
  return new Uint8Array(createHmac('sha256', key).update(random).update(queryId).update(probe).digest());
}
