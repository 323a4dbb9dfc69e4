// The setup before the attack: a server with tokens, the attackers' own collection, and what they
// know about it.

import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Database, HttpService, MasterSeed } from '@hers/client';
import { TokenStore } from '@hers/server';
import {
  type CallOptions,
  frame,
  peekResponse,
  type SealedRecord,
  type SearchCallOptions,
  type SearchRequest,
} from '@hers/service';
import type { Spoils } from './fight.ts';
import { vectorOf as anyVector, DIMENSION } from './vectors.ts';

const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');

/**
 * Queries that attackers have, which have half a megabyte each and must fit into one body; and
 * large records.
 */
const QUERIES = 48;
const QUERY_BYTES = 2 ** 19 + 2 ** 16;
/** Searched for at a time. */
const BATCH = 4;
const LARGE = 8;

export const NAMES = { honest: 'honest', prey: 'mallory', scratch: 'scratch', attic: 'attic' } as const;

/** All tokens; `maker` creates the collections before the attack, and attackers do not have it. */
export async function makeTokens(path: string): Promise<{
  maker: string;
  honest: string;
  search: string;
  write: string;
  admin: string;
  keeper: string;
}> {
  const store = new TokenStore(path);
  const secret = async (scope: 'search' | 'write' | 'admin', collection?: string) =>
    (await store.create({ scope, ...(collection === undefined ? {} : { collection }) })).secret;
  return {
    maker: await secret('admin'),
    honest: await secret('admin', NAMES.honest),
    search: await secret('search'),
    write: await secret('write', NAMES.scratch),
    admin: await secret('admin', NAMES.attic),
    keeper: await secret('admin', NAMES.prey),
  };
}

/** Records what crosses the connection. */
class Listening extends HttpService {
  readonly queries: Uint8Array[] = [];
  readonly handles = new Set<string>();
  readonly lists = new Set<string>();
  readonly blocks = new Set<string>();

  override async *search(
    name: string,
    request: SearchRequest,
    options?: SearchCallOptions,
  ): AsyncGenerator<Uint8Array> {
    this.queries.push(...request.queries.map((query) => query.slice())); // theirs is given back
    for await (const response of super.search(name, request, options)) {
      this.blocks.add(hex(peekResponse(response).blockId));
      yield response;
    }
  }

  override getRecords(
    name: string,
    handles: readonly Uint8Array[],
    options?: CallOptions,
  ): AsyncGenerator<SealedRecord> {
    for (const handle of handles) this.handles.add(hex(handle));
    return super.getRecords(name, handles, options);
  }

  override getLists(name: string, ids: readonly Uint8Array[], options?: CallOptions): AsyncGenerator<Uint8Array> {
    for (const id of ids) this.lists.add(hex(id));
    return super.getLists(name, ids, options);
  }
}

export interface StageOptions {
  readonly url: string;
  readonly folder: string;
  readonly records: number;
  readonly bodyBytes: number;
  readonly seed: number;
  readonly scale: number;
  readonly tokens: Awaited<ReturnType<typeof makeTokens>>;
}

/** Fills the attackers' collections. */
export async function makeSpoils(options: StageOptions): Promise<Spoils> {
  const { url, folder, records, bodyBytes, seed, scale, tokens } = options;
  const { maker: token, search, write, admin, keeper } = tokens;
  const queryCount = Math.min(QUERIES, Math.floor((0.9 * bodyBytes) / QUERY_BYTES));
  const vectorOf = (i: number) => anyVector(seed + 1, i);
  const key = MasterSeed.generate();
  const listening = new Listening(url, { token });
  const writing = new Database(listening, { key, threads: 1 });
  const prey = await writing.createCollection(NAMES.prey, { dimension: DIMENSION });
  const large = { filler: 'x'.repeat(Math.min(8e6, Math.floor(bodyBytes / 9))) };
  await prey.upsert(Array.from({ length: records }, (_, i) => ({ id: String(i), vector: vectorOf(i) })));
  for (let i = 0; i < LARGE; i++) await prey.upsert({ id: `large-${i}`, vector: vectorOf(i), payload: large });
  await prey.optimize();
  const scratch = await writing.createCollection(NAMES.scratch, { dimension: DIMENSION });
  await scratch.upsert(Array.from({ length: 100 }, (_, i) => ({ id: String(i), vector: vectorOf(i) })));
  // A new client requests everything.
  const reading = new Database(listening, { key, threads: 1 });
  const again = await reading.collection(NAMES.prey);
  listening.handles.clear();
  listening.queries.length = 0;
  await again.get(Array.from({ length: LARGE }, (_, i) => `large-${i}`));
  const probes = Array.from({ length: queryCount }, (_, i) => vectorOf(records + i));
  for (let i = 0; i < queryCount; i += BATCH) await again.searchBatch(probes.slice(i, i + BATCH), { limit: 1 });
  const { version } = await listening.getCollection(NAMES.prey);
  const queries = join(folder, 'queries');
  await writeFile(queries, Buffer.concat(listening.queries.map(frame)));
  const spoils: Spoils = {
    ...{ url, seed, scale, bodyBytes, queries },
    ...NAMES,
    preyVersion: version,
    tokens: { search, write, admin, keeper },
    handles: [...listening.handles],
    lists: [...listening.lists],
    blocks: [...listening.blocks],
  };
  await reading.close();
  await writing.close();
  return spoils;
}
