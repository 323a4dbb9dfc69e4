// `npm run bench -- canaries`: what canaries add to a search, by slots that hold no records and by
// the check of every response. A search is taken as its scan on one thread and the decryption of
// its responses. All else that a search does is left out, so the shares are at their largest.

import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { progress, type Report, type Result } from '@hers/paper/lab/report';
import { type Effort, minimum } from '@hers/paper/lab/timing';
import { type SegmentHandle, segmentBytes } from '@hers/scan';
import { NativeKernel } from '@hers/scan/native';
import {
  blockMatrix,
  decodeBlock,
  decodeQuery,
  HersError,
  type Integrity,
  type Profile,
  plan,
  type Query,
  slotsFor,
} from '@hers/scheme';
import {
  type CollectionKey,
  canaryChecker,
  encryptBlock,
  encryptQuery,
  MasterSeed,
  type QuerySecret,
  withCanaries,
} from '@hers/scheme/secret';
import { machine } from '@hers/vectors/machine';
import { identities } from '@hers/vectors/synthetic';

/** Blocks that differ; files repeat them, so that a scan reads more than caches hold. */
const BLOCKS = 8;
const FILES = 32;
/** Passes over the blocks in one timed run: the clock does not resolve a single check. */
const PASSES = 50;

export interface CanaryBenchOptions {
  readonly dimension?: string;
  readonly quick?: boolean;
}

export async function run({ dimension: wanted = '128', quick = false }: CanaryBenchOptions): Promise<Report> {
  const dimension = Number(wanted);
  if (!(Number.isInteger(dimension) && dimension > 1))
    throw new HersError('INVALID_ARGUMENT', '--dimension takes a whole number from 2 on');
  const effort = quick
    ? { atLeastMs: 0, atLeastRuns: 1, warmups: 1 }
    : { atLeastMs: 1000, atLeastRuns: 15, warmups: 20 };
  const files = quick ? 1 : FILES;
  const results: Result[] = [];
  for (const profile of ['compact', 'small'] as const) {
    const both: Measured[] = [];
    for (const integrity of ['standard', 'strong'] as const) {
      progress(`${profile}, ${integrity}`);
      both.push(await measure({ dimension, profile, integrity }, files, effort));
    }
    // Blocks of both are of one size, so what differs is what else the machine did.
    const scanMs = Math.min(...both.map((each) => each.scanMs));
    const decryptMs = Math.min(...both.map((each) => each.decryptMs));
    results.push(micro(`block-scan-${profile}`, scanMs), micro(`block-decrypt-${profile}`, decryptMs));
    for (const { request, checkMs } of both) {
      const end = `${profile}${request.integrity === 'strong' ? '-strong' : ''}`;
      const { capacity, parameters } = plan(request);
      // Of what a record takes without canaries: there are more blocks, and each takes longer.
      const without = scanMs + decryptMs;
      const added = ((parameters.n / capacity) * (without + checkMs)) / without - 1;
      results.push(
        micro(`canary-check-${end}`, checkMs),
        { name: `canary-slots-${end}`, value: 1 - capacity / parameters.n, unit: 'share' },
        { name: `canary-share-${end}`, value: added, unit: 'share' },
      );
    }
  }
  return {
    bench: 'canaries',
    parameters: { dimension, blocks: BLOCKS * files, threads: 1, quick },
    machine: machine(),
    results,
  };
}

interface Request {
  readonly dimension: number;
  readonly profile: Profile;
  readonly integrity: Integrity;
}

/** Milliseconds for a block. */
interface Measured {
  readonly request: Request;
  readonly scanMs: number;
  readonly decryptMs: number;
  readonly checkMs: number;
}

const micro = (name: string, ms: number): Result => ({ name, value: 1000 * ms, unit: 'µs/block' });

async function measure(request: Request, files: number, effort: Effort): Promise<Measured> {
  const settings = plan(request);
  const { capacity, dimension } = settings;
  using seed = MasterSeed.generate();
  const key = seed.collectionKey(settings, crypto.getRandomValues(new Uint8Array(16)));
  const { vectors } = identities(capacity, 1, dimension).gallery();
  const ids = Array.from({ length: BLOCKS }, () => crypto.getRandomValues(new Uint8Array(16)));
  const blocks = ids.map((blockId) =>
    blockMatrix(decodeBlock(encryptBlock(key, withCanaries(key, vectors, blockId), { blockId }))),
  );
  const probe = vectors.subarray(0, dimension);
  const { query, secret } = encryptQuery(key, probe);
  const { scanMs, responses } = await scan(segmentBytes(blocks), decodeQuery(query), files, effort);
  const { decryptMs, checkMs } = clientCost(key, probe, secret, ids, responses, effort);
  secret.wipe();
  key.wipe();
  return { request, scanMs, decryptMs, checkMs };
}

/** The least time that a scan on one thread takes for a block, and the responses of one file. */
async function scan(
  segment: Uint8Array,
  query: Query,
  files: number,
  { atLeastRuns = 1 }: Effort,
): Promise<{ scanMs: number; responses: Uint8Array[] }> {
  const folder = await mkdtemp(join(tmpdir(), 'hers-bench-'));
  const kernel = NativeKernel.open({ threads: 1 });
  try {
    const handles: SegmentHandle[] = [];
    for (let file = 0; file < files; file++) {
      const path = join(folder, `${file}.segment`);
      await writeFile(path, segment);
      handles.push(await kernel.load({ path }));
    }
    const responses: Uint8Array[] = [];
    let scanMs = Number.POSITIVE_INFINITY;
    // The first run verifies checksums and fills the page cache.
    for (let run = 0; run <= atLeastRuns; run++) {
      for await (const { handle, block, response } of kernel.scan(handles, [query]))
        if (run === 0 && handle === handles[0]) responses[block] = response.slice();
      const { expand, multiply, respond } = kernel.times!;
      if (run > 0) scanMs = Math.min(scanMs, (expand + multiply + respond) / (files * BLOCKS));
    }
    return { scanMs, responses };
  } finally {
    await kernel.close();
    await rm(folder, { recursive: true, force: true });
  }
}

/** Milliseconds that a response takes to decrypt, and to check. */
function clientCost(
  key: CollectionKey,
  probe: Float32Array,
  secret: QuerySecret,
  ids: readonly Uint8Array[],
  responses: readonly Uint8Array[],
  effort: Effort,
): { decryptMs: number; checkMs: number } {
  const slots = slotsFor(key.plan, key.plan.capacity);
  const places = ids.map((id) => ({ id: Buffer.from(id).toString('hex'), slots }));
  const decrypted = responses.map((response) => secret.decrypt(response));
  const checked = canaryChecker(key, probe);
  const scores = new Float32Array(slots);
  const given = decrypted.map((each) => ({ ...each, scores }));
  const pass = (check: boolean) => {
    for (let b = 0; b < BLOCKS; b++) {
      // A check moves scores, so it gets a copy, whose time is taken off.
      scores.set(decrypted[b].scores);
      if (check && !checked(places[b], given[b])) throw new Error('a sound response was refused');
    }
  };
  const time = (passes: number, action: () => void) => {
    const { min } = minimum(() => {
      for (let i = 0; i < passes; i++) action();
    }, effort);
    return min / passes / BLOCKS;
  };
  const copyMs = time(PASSES, () => pass(false));
  const checkMs = Math.max(0, time(PASSES, () => pass(true)) - copyMs);
  const decryptMs = time(4, () => {
    for (const response of responses) secret.decrypt(response);
  });
  return { decryptMs, checkMs };
}
