// Every path of the server: what it takes, what it answers, who may. The table is the router, the validation and /openapi.json at once.

import {
  type CommitHead,
  type CreateHead,
  encodeInfo,
  encodeMessage,
  fromHex,
  HANDLE_BYTES,
  type HelloBody,
  HersError,
  LIST_ID_BYTES,
  OCTETS,
  type SealedRecord,
  type SearchHead,
  type Service,
  unframe,
  unpackIds,
} from '@hers/service';
import type { Call } from './call.ts';
import type { ItemParts } from './items.ts';
import type { Scans } from './scans.ts';
import * as schemas from './schemas.ts';

/** `search` reads and searches, `write` changes records, `admin` makes, deletes, copies and restores whole collections. */
export type Scope = 'search' | 'write' | 'admin';

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly url: string;
  /** What a token must allow; `open` asks for none. */
  readonly needs: Scope | 'open';
  /** About the server as a whole: not for tokens of one collection. */
  readonly whole?: boolean;
  /** The name of the call in Service, for logs, metrics and the document. */
  readonly operation: string;
  readonly summary: string;
  readonly params?: object;
  readonly takes?:
    | { readonly kind: 'message'; readonly head: object; readonly parts: string }
    | { readonly kind: 'octets'; readonly about: string };
  readonly gives:
    | { readonly kind: 'json'; readonly status: 200 | 201; readonly body: object }
    | { readonly kind: 'octets'; readonly status: 200; readonly about: string; readonly head?: object }
    | { readonly kind: 'text'; readonly status: 200; readonly type: string; readonly about: string }
    | { readonly kind: 'nothing'; readonly status: 204 };
  /** Takes as long as it takes: neither its duration nor the size of its body is limited. */
  readonly endless?: boolean;
  readonly handle: (call: Call) => Promise<unknown>;
}

const BLOCK_ID_BYTES = 16;
const MANY = Number.MAX_SAFE_INTEGER;

/** The routes that stand for the calls of a Service; searches go to `scans`, where they may have to wait. */
export function serviceRoutes(service: Service, scans: Scans, version: string): Route[] {
  const collection = '/v1/collections/:name';
  const params = schemas.collectionParams;
  return [
    {
      method: 'GET',
      url: '/v1',
      needs: 'search',
      operation: 'hello',
      summary: 'What this server is and takes',
      gives: { kind: 'json', status: 200, body: schemas.helloBody },
      handle: async ({ limits }): Promise<HelloBody> => ({ server: 'hers', version, bodyBytes: limits.bodyBytes }),
    },
    {
      method: 'GET',
      url: '/v1/collections',
      needs: 'search',
      operation: 'listCollections',
      summary: 'All collections, or the one that the token is for',
      gives: { kind: 'json', status: 200, body: schemas.collectionsBody },
      handle: async ({ token }) => {
        const all = await service.listCollections();
        const only = token?.collection;
        return { collections: all.filter(({ name }) => only === undefined || name === only).map(encodeInfo) };
      },
    },
    {
      method: 'POST',
      url: '/v1/collections',
      needs: 'admin',
      operation: 'createCollection',
      summary: 'Make a collection',
      takes: { kind: 'message', head: schemas.createHead, parts: 'the descriptor, the manifest' },
      gives: { kind: 'nothing', status: 204 },
      handle: async (call) => {
        const { head, parts } = await call.message<CreateHead>(schemas.createHead, { least: 2, most: 2 });
        call.touch(head.name);
        const [descriptor, manifest] = parts;
        await service.createCollection(head.name, { id: fromHex(head.id), descriptor, manifest });
      },
    },
    {
      method: 'GET',
      url: collection,
      needs: 'search',
      operation: 'getCollection',
      summary: 'One collection',
      params,
      gives: { kind: 'json', status: 200, body: schemas.collectionBody },
      handle: async ({ name }) => encodeInfo(await service.getCollection(name)),
    },
    {
      method: 'DELETE',
      url: collection,
      needs: 'admin',
      operation: 'deleteCollection',
      summary: 'Delete a collection and everything in it',
      params,
      gives: { kind: 'nothing', status: 204 },
      handle: ({ name }) => service.deleteCollection(name),
    },
    {
      method: 'GET',
      url: `${collection}/manifest`,
      needs: 'search',
      operation: 'getManifest',
      summary: 'The manifest and its version',
      params,
      gives: { kind: 'octets', status: 200, about: 'a message: the head, the manifest', head: schemas.manifestHead },
      handle: async ({ name, reply }) => {
        const { version, manifest } = await service.getManifest(name);
        return reply.type(OCTETS).send(encodeMessage({ version }, [manifest]));
      },
    },
    {
      method: 'PUT',
      url: `${collection}/records`,
      needs: 'write',
      operation: 'stageRecords',
      summary: 'Stage sealed records',
      params,
      takes: { kind: 'octets', about: 'frames: handle (16 bytes) and sealed record' },
      gives: { kind: 'json', status: 201, body: schemas.stageBody },
      endless: true,
      handle: async (call) => ({
        stage: await service.stageRecords(call.name, recordsOf(call), { signal: call.signal }),
      }),
    },
    {
      method: 'POST',
      url: `${collection}/records/get`,
      needs: 'search',
      operation: 'getRecords',
      summary: 'Sealed records by their handles, in that order',
      params,
      takes: { kind: 'octets', about: 'handles of 16 bytes, one behind the other' },
      gives: { kind: 'octets', status: 200, about: 'items: handle and sealed record' },
      handle: async (call) => {
        const { name, signal } = call;
        const handles = unpackIds(await call.octets(), HANDLE_BYTES, 'a handle');
        return call.items(recordParts(service.getRecords(name, handles, { signal })));
      },
    },
    {
      method: 'POST',
      url: `${collection}/lists`,
      needs: 'write',
      operation: 'stageList',
      summary: 'Stage a sealed list',
      params,
      takes: { kind: 'octets', about: 'the sealed list' },
      gives: { kind: 'json', status: 201, body: schemas.stageBody },
      handle: async (call) => ({ stage: await service.stageList(call.name, await call.octets()) }),
    },
    {
      method: 'POST',
      url: `${collection}/lists/get`,
      needs: 'search',
      operation: 'getLists',
      summary: 'Sealed lists by the SHA-256 of their bytes',
      params,
      takes: { kind: 'octets', about: 'ids of 32 bytes, one behind the other' },
      gives: { kind: 'octets', status: 200, about: 'items: sealed lists' },
      handle: async (call) => {
        const { name, signal } = call;
        const ids = unpackIds(await call.octets(), LIST_ID_BYTES, 'a list id');
        return call.items(listParts(service.getLists(name, ids, { signal })));
      },
    },
    {
      method: 'POST',
      url: `${collection}/blocks`,
      needs: 'write',
      operation: 'stageBlock',
      summary: 'Stage an encrypted block',
      params,
      takes: { kind: 'octets', about: 'the encoded block' },
      gives: { kind: 'json', status: 201, body: schemas.stageBody },
      handle: async (call) => ({
        stage: await service.stageBlock(call.name, [await call.octets()], { signal: call.signal }),
      }),
    },
    {
      method: 'GET',
      url: `${collection}/blocks/:block`,
      needs: 'search',
      operation: 'getBlock',
      summary: 'An encrypted block as it came',
      params: schemas.blockParams,
      gives: { kind: 'octets', status: 200, about: 'the encoded block' },
      handle: async (call) => {
        const { block } = call.request.params as { block: string };
        return call.answer(service.getBlock(call.name, fromHex(block), { signal: call.signal }));
      },
    },
    {
      method: 'POST',
      url: `${collection}/commit`,
      needs: 'write',
      operation: 'commit',
      summary: 'Make what was staged part of the collection, if it still has the version the change is based on',
      params,
      takes: {
        kind: 'message',
        head: schemas.commitHead,
        parts:
          'the manifest; handles to remove (16 bytes each); base and result of every sum (16 bytes each); blocks to drop (16); lists to drop (32)',
      },
      gives: { kind: 'json', status: 200, body: schemas.versionBody },
      handle: async (call) => {
        const { head, parts } = await call.message<CommitHead>(schemas.commitHead, { least: 5, most: 5 });
        const [manifest, removed, ends, dropped, droppedLists] = parts;
        const { sums = [], ...rest } = head;
        const ids = unpackIds(ends, BLOCK_ID_BYTES, 'a block id');
        if (ids.length !== 2 * sums.length)
          throw new HersError('MALFORMED', 'every sum has a base and a result, and this message names more or fewer');
        const version = await service.commit(call.name, {
          ...rest,
          manifest,
          removed: unpackIds(removed, HANDLE_BYTES, 'a handle'),
          sums: sums.map((sum, i) => ({ ...sum, base: ids[2 * i], result: ids[2 * i + 1] })),
          dropped: unpackIds(dropped, BLOCK_ID_BYTES, 'a block id'),
          droppedLists: unpackIds(droppedLists, LIST_ID_BYTES, 'a list id'),
        });
        return { version };
      },
    },
    {
      method: 'POST',
      url: `${collection}/search`,
      needs: 'search',
      operation: 'search',
      summary: 'Scan the collection for encrypted queries',
      params,
      takes: {
        kind: 'message',
        head: schemas.searchHead,
        parts: 'with some: the ids of the blocks to scan, 16 bytes each; then the encoded queries',
      },
      gives: { kind: 'octets', status: 200, about: 'items: encoded responses, in any order' },
      handle: async (call) => {
        const { head, parts } = await call.message<SearchHead>(schemas.searchHead, { least: 0, most: MANY });
        const { version, some } = head;
        if (some && parts.length === 0) throw new HersError('MALFORMED', 'this search names no blocks');
        const queries = some ? parts.slice(1) : parts;
        const blocks = some ? { blocks: unpackIds(parts[0], BLOCK_ID_BYTES, 'a block id') } : {};
        const { name, signal } = call;
        return call.items(parted(scans.search(name, { version, queries, ...blocks }, { signal })));
      },
    },
    {
      method: 'POST',
      url: `${collection}/purge`,
      needs: 'write',
      operation: 'purge',
      summary: 'Make what was deleted or replaced disappear from the disk',
      params,
      gives: { kind: 'nothing', status: 204 },
      endless: true,
      handle: ({ name, signal }) => service.purge(name, { signal }),
    },
    {
      method: 'GET',
      url: `${collection}/snapshot`,
      needs: 'admin',
      operation: 'snapshot',
      summary: 'The whole collection as one stream',
      params,
      gives: { kind: 'octets', status: 200, about: 'a snapshot' },
      endless: true,
      handle: (call) => call.answer(service.snapshot(call.name, { signal: call.signal })),
    },
    {
      method: 'PUT',
      url: `${collection}/snapshot`,
      needs: 'admin',
      operation: 'restore',
      summary: 'Make a collection of a snapshot',
      params,
      takes: { kind: 'octets', about: 'a snapshot of any size' },
      gives: { kind: 'nothing', status: 204 },
      endless: true,
      handle: (call) => service.restore(call.name, call.stream(), { signal: call.signal }),
    },
  ];
}

async function* recordsOf(call: Call): AsyncGenerator<SealedRecord> {
  for await (const content of unframe(call.stream(), call.limits.bodyBytes)) {
    if (content.length < HANDLE_BYTES) throw new HersError('MALFORMED', 'a record begins with its handle');
    yield { handle: content.subarray(0, HANDLE_BYTES), sealed: content.subarray(HANDLE_BYTES) };
  }
}

// Items for `Call.items`: several at a time, each of one or more parts.

async function* recordParts(records: AsyncIterable<SealedRecord>): AsyncGenerator<ItemParts[]> {
  for await (const { handle, sealed } of records) yield [[handle, sealed]];
}

async function* listParts(lists: AsyncIterable<Uint8Array>): AsyncGenerator<ItemParts[]> {
  for await (const list of lists) yield [[list]];
}

async function* parted(batches: AsyncIterable<Uint8Array[]>): AsyncGenerator<ItemParts[]> {
  for await (const batch of batches) yield batch.map((item) => [item]);
}
