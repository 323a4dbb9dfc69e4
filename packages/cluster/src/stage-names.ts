// What a client calls something that it has staged in a cluster: its kind, and for every shard that
// it went to the name that the shard gave it. Any node understands it. For a caller that is held to
// partitions, an authentication code binds it to them: nobody else who is held can commit it.

import { createHmac, timingSafeEqual } from 'node:crypto';
import { HersError, type Partitions, type StageId } from '@hers/service';

export type StageKind = 'records' | 'list' | 'block';

export interface ShardStage {
  readonly shard: number;
  readonly stage: StageId;
}

/** Longer ones are not taken by servers. */
const MAX_LETTERS = 8192;
const SHAPE = /^(records|list|block)\/([0-9]+:[\w-]{43}(?:,[0-9]+:[\w-]{43})*)?(?:\/([\w-]{43}))?$/;

function codeOf(secret: string, uid: string, plain: string, partitions: Partitions): string {
  if (secret === '')
    throw new HersError('FORBIDDEN', 'tokens of partitions need a cluster whose nodes have a token of their own');
  const bound = JSON.stringify([uid, plain, [...partitions].sort()]);
  return createHmac('sha256', secret).update(bound).digest('base64url');
}

export function nameStage(
  secret: string,
  uid: string,
  kind: StageKind,
  parts: readonly ShardStage[],
  partitions: Partitions | undefined,
): StageId {
  const plain = `${kind}/${parts.map(({ shard, stage }) => `${shard}:${stage}`).join()}`;
  const name = partitions ? `${plain}/${codeOf(secret, uid, plain, partitions)}` : plain;
  if (name.length > MAX_LETTERS)
    throw new HersError('TOO_LARGE', 'so many records at a time cannot be staged in a cluster; stage fewer');
  return name;
}

/** NOT_FOUND for what is no such name, or was staged by somebody else than this caller. */
export function readStage(
  secret: string,
  uid: string,
  kind: StageKind,
  name: StageId,
  partitions: Partitions | undefined,
): ShardStage[] {
  const [, found, parts, code] = SHAPE.exec(name) ?? [];
  const notStaged = () => new HersError('NOT_FOUND', 'this was never staged here, or no longer is; stage it again');
  if (!found) throw notStaged();
  if (found !== kind)
    throw new HersError('INVALID_ARGUMENT', `a staged ${found} was given where a staged ${kind} belongs`);
  if (partitions) {
    const expected = codeOf(secret, uid, `${found}/${parts ?? ''}`, partitions);
    if (code === undefined || !timingSafeEqual(Buffer.from(code), Buffer.from(expected))) throw notStaged();
  }
  const stages = (parts ?? '')
    .split(',')
    .filter((part) => part !== '')
    .map((part) => {
      const [shard, stage] = part.split(':');
      return { shard: Number(shard), stage };
    });
  // Records go to many shards, or none; a list or a block goes to one.
  if (kind !== 'records' && stages.length !== 1) throw notStaged();
  return stages;
}
