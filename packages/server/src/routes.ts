// Every path of the server: what it takes, what it answers, who may. The table is the router, the
// validation and /openapi.json at once.

import {
  BLOCK_ID_BYTES,
  COMMIT_PARTS,
  type CollectionInfo,
  type CommitHead,
  type CreateHead,
  checkBlocks,
  decodeCommit,
  encodeInboxItem,
  encodeInfo,
  encodeMessage,
  expandedBytes,
  fromHex,
  Grouped,
  HANDLE_BYTES,
  type HelloBody,
  HersError,
  type InboxItem,
  type InboxRange,
  LIST_ID_BYTES,
  MAX_IDS,
  questionIn,
  type SealedRecord,
  type SearchHead,
  type Service,
  unframeGroups,
} from '@hers/service';
import type { Call } from './call.ts';
import { docsPage, openApi, STYLE_HASH, VERSION } from './docs.ts';
import { JSON_TYPE } from './errors.ts';
import type { ItemParts } from './items.ts';
import type { Parts } from './parts.ts';
import type { Scans } from './scans.ts';
import * as schemas from './schemas.ts';

/**
 * `search` reads and searches, `write` changes records, `admin` makes, deletes, copies and restores
 * whole collections. `device` puts envelopes of one device into the inbox of one collection, and
 * does nothing else.
 */
export type Scope = 'device' | 'search' | 'write' | 'admin';

export interface Route {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE';
  readonly url: string;
  /** What a token must allow; `open` asks for none. */
  readonly needs: Scope | 'open';
  /** About the server as a whole: not for tokens of one collection. */
  readonly whole?: boolean;
  /** About a collection as a whole: not for tokens that are limited to partitions. */
  readonly everything?: boolean;
  /** The name of the call in Service, for logs, metrics and the document. */
  readonly operation: string;
  readonly summary: string;
  readonly params?: object;
  readonly takes?:
    | { readonly kind: 'message'; readonly head: object; readonly parts: string }
    | { readonly kind: 'octets'; readonly description: string };
  readonly gives:
    | { readonly kind: 'json'; readonly status: 200 | 201; readonly body: object }
    | { readonly kind: 'octets'; readonly status: 200; readonly description: string; readonly head?: object }
    | { readonly kind: 'text'; readonly status: 200; readonly type: string; readonly description: string }
    | { readonly kind: 'nothing'; readonly status: 204 };
  /** Reads or writes a whole collection: there are as many at a time as there are scans. */
  readonly heavy?: boolean;
  /** Takes as long as it takes: neither its duration nor the size of its body is limited. */
  readonly endless?: boolean;
  readonly handle: (call: Call) => Promise<unknown>;
}

/** Queries in one search. */
const MAX_QUERIES = 1024;
/**
 * What is made of a query when it is scanned for, in queries: a copy, its other half, sums and
 * answers.
 */
const QUERY_COST = 3;
/** Rows of open queries that a store expands at the same time, in bytes, unless one has more. */
const EXPANDED_BYTES = 2 ** 26;
/** The evaluation keys of a device, as they are kept and as they are used. */
const DEVICE_KEY_BYTES = 2 ** 20;
/** What is known of a staged record until it is committed. */
const STAGED_COST = 64;
/** What the description of a collection takes as JSON, besides its descriptor. */
const INFO_COST = 1024;
/** An answer that is there as a whole is sent in pieces of this size. */
const PIECE_BYTES = 2 ** 18;

export function routesOf(service: Service, parts: Parts): Route[] {
  const all: Route[] = [...serviceRoutes(service, parts.scans), ...serverRoutes(service, parts, () => all)];
  return all;
}

/**
 * The routes that stand for the calls of a Service; searches go to `scans`, where they may have to
 * wait.
 */
function serviceRoutes(service: Service, scans: Scans): Route[] {
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
      handle: async ({ limits }): Promise<HelloBody> => ({
        server: 'hers',
        version: VERSION,
        bodyBytes: limits.bodyBytes,
      }),
    },
    {
      method: 'GET',
      url: '/v1/collections',
      needs: 'search',
      operation: 'listCollections',
      summary: 'All collections, or the one that the token is for',
      gives: { kind: 'json', status: 200, body: schemas.collectionsBody },
      handle: async (call) => {
        const only = call.token?.collection;
        const all = only === undefined ? await service.listCollections() : await onlyThat(service, only);
        call.hold(all.reduce((sum, { descriptor }) => sum + INFO_COST + 4 * descriptor.length, 0));
        return { collections: all.map((info) => encodeInfo(shownTo(call, info))) };
      },
    },
    {
      method: 'POST',
      url: '/v1/collections',
      needs: 'admin',
      everything: true,
      operation: 'createCollection',
      summary: 'Make a collection',
      takes: { kind: 'message', head: schemas.createHead, parts: 'the descriptor, the manifest' },
      gives: { kind: 'nothing', status: 204 },
      handle: async (call) => {
        const { head, parts } = await call.message<CreateHead>(schemas.createHead, 2);
        const [descriptor, manifest] = parts;
        if (!descriptor || !manifest)
          throw new HersError('MALFORMED', `this message has ${parts.length} parts, and should have 2`);
        call.touch(head.name);
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
      handle: async (call) => encodeInfo(shownTo(call, await service.getCollection(call.name))),
    },
    {
      method: 'DELETE',
      url: collection,
      needs: 'admin',
      everything: true,
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
      gives: {
        kind: 'octets',
        status: 200,
        description: 'a message: the head, the manifest',
        head: schemas.manifestHead,
      },
      handle: async (call) => {
        const { version, manifest } = await service.getManifest(call.name, call.options);
        call.hold(2 * manifest.length);
        return call.pieces(inPieces(encodeMessage({ version }, [manifest])));
      },
    },
    {
      method: 'PUT',
      url: `${collection}/records`,
      needs: 'write',
      operation: 'stageRecords',
      summary: 'Stage sealed records',
      params,
      takes: { kind: 'octets', description: 'frames: handle (16 bytes) and sealed record' },
      gives: { kind: 'json', status: 201, body: schemas.stageBody },
      endless: true,
      handle: async (call) => ({
        stage: await service.stageRecords(call.name, recordsOf(call), call.options),
      }),
    },
    {
      method: 'POST',
      url: `${collection}/records/get`,
      needs: 'search',
      operation: 'getRecords',
      summary: 'Sealed records by their handles, in that order',
      params,
      takes: { kind: 'octets', description: 'handles of 16 bytes, one behind the other' },
      gives: { kind: 'octets', status: 200, description: 'items: handle and sealed record' },
      handle: async (call) => {
        const handles = call.ids(await call.octets(), HANDLE_BYTES, 'a handle', MAX_IDS);
        return call.items(recordParts(service.getRecords(call.name, handles, call.options)));
      },
    },
    {
      method: 'POST',
      url: `${collection}/lists`,
      needs: 'write',
      operation: 'stageList',
      summary: 'Stage a sealed list',
      params,
      takes: { kind: 'octets', description: 'the sealed list' },
      gives: { kind: 'json', status: 201, body: schemas.stageBody },
      handle: async (call) => ({ stage: await service.stageList(call.name, await call.octets(), call.options) }),
    },
    {
      method: 'POST',
      url: `${collection}/lists/get`,
      needs: 'search',
      operation: 'getLists',
      summary: 'Sealed lists by the SHA-256 of their bytes',
      params,
      takes: { kind: 'octets', description: 'ids of 32 bytes, one behind the other' },
      gives: { kind: 'octets', status: 200, description: 'items: sealed lists' },
      handle: async (call) => {
        const ids = call.ids(await call.octets(), LIST_ID_BYTES, 'a list id', MAX_IDS);
        return call.items(listParts(service.getLists(call.name, ids, call.options)));
      },
    },
    {
      method: 'POST',
      url: `${collection}/blocks`,
      needs: 'write',
      operation: 'stageBlock',
      summary: 'Stage an encrypted block',
      params,
      takes: { kind: 'octets', description: 'the encoded block' },
      gives: { kind: 'json', status: 201, body: schemas.stageBody },
      handle: async (call) => ({
        stage: await service.stageBlock(call.name, [await call.octets()], call.options),
      }),
    },
    {
      method: 'GET',
      url: `${collection}/blocks/:block`,
      needs: 'search',
      operation: 'getBlock',
      summary: 'An encrypted block as it came',
      params: schemas.blockParams,
      gives: { kind: 'octets', status: 200, description: 'the encoded block' },
      handle: async (call) => {
        const { block } = call.request.params as { block: string };
        return call.pieces(service.getBlock(call.name, fromHex(block), call.options));
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
        parts: 'the manifest; handles to remove (16 bytes each); blocks to drop (16); lists to drop (32)',
      },
      gives: { kind: 'json', status: 200, body: schemas.versionBody },
      handle: async (call) => {
        const message = await call.message<CommitHead>(schemas.commitHead, COMMIT_PARTS);
        const change = decodeCommit(message);
        return { version: await service.commit(call.name, change, call.options) };
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
        parts:
          'with some: the ids of the blocks to scan, 16 bytes each; with evaluation: the ids of the lists of evaluation keys, 32 bytes each; with devices: the ids of those of single devices, 32 bytes each; then the encoded queries',
      },
      gives: {
        kind: 'octets',
        status: 200,
        description: 'items: encoded responses, in any order; with partial, a cluster ends with its coverage as JSON',
      },
      handle: async (call) => {
        const { head, parts } = await call.message<SearchHead>(schemas.searchHead, 3 + MAX_QUERIES);
        const { version, some, partial, inbox = [] } = head;
        const queries = [...parts];
        const named = some ? queries.shift() : undefined;
        if (some && !named) throw new HersError('MALFORMED', 'this search names no blocks');
        const lists = head.evaluation ? queries.shift() : undefined;
        if (head.evaluation && !lists) throw new HersError('MALFORMED', 'this search names no evaluation keys');
        const own = head.devices ? queries.shift() : undefined;
        if (head.devices && !own) throw new HersError('MALFORMED', 'this search names no keys of devices');
        // Here, so that questions are scanned together with other searches.
        queries.push(...(await questionsIn(service, call, inbox)));
        call.guest.hold.reserve(QUERY_COST * queries.reduce((sum, { length }) => sum + length, 0) + openCost(queries));
        const blocks = named ? { blocks: call.ids(named, BLOCK_ID_BYTES, 'a block id') } : {};
        const evaluation = lists ? { evaluation: call.ids(lists, LIST_ID_BYTES, 'a list id') } : {};
        const devices = own ? { devices: call.ids(own, LIST_ID_BYTES, 'a list id') } : {};
        call.guest.hold.reserve((devices.devices?.length ?? 0) * DEVICE_KEY_BYTES);
        checkBlocks(call.partitions, blocks.blocks);
        const request = { version, queries, ...blocks, ...evaluation, ...devices, ...(partial ? { partial } : {}) };
        const reply = await call.itemPieces(scans.search(call.name, request, call.guest));
        // A search that ended before its time may still be part of a scan.
        if (!call.signal.aborted) call.freeBody();
        return reply;
      },
    },
    {
      method: 'POST',
      url: `${collection}/inbox`,
      needs: 'device',
      everything: true,
      operation: 'post',
      summary: 'Put the envelope of a device into the inbox',
      params,
      takes: { kind: 'octets', description: 'an envelope: a question or an enrolment' },
      gives: { kind: 'json', status: 201, body: schemas.postBody },
      handle: async (call) => {
        const { device } = call.token ?? {};
        return { number: await service.post(call.name, await call.octets(), { ...call.options, device }) };
      },
    },
    {
      method: 'POST',
      url: `${collection}/inbox/take`,
      needs: 'search',
      everything: true,
      operation: 'takeInbox',
      summary: 'What is in the inbox, by number',
      params,
      takes: { kind: 'message', head: schemas.takeHead, parts: 'none' },
      gives: { kind: 'octets', status: 200, description: 'items: number and time (u64 each), envelope' },
      handle: async (call) => {
        const { head } = await call.message<InboxRange>(schemas.takeHead, 0);
        return call.items(inboxParts(service.takeInbox(call.name, head, call.options)));
      },
    },
    {
      method: 'POST',
      url: `${collection}/inbox/drop`,
      needs: 'write',
      everything: true,
      operation: 'dropInbox',
      summary: 'Remove items from the inbox',
      params,
      takes: { kind: 'message', head: schemas.dropHead, parts: 'none' },
      gives: { kind: 'nothing', status: 204 },
      handle: async (call) => {
        const { head } = await call.message<{ numbers: number[] }>(schemas.dropHead, 0);
        await service.dropInbox(call.name, head.numbers, call.options);
      },
    },
    {
      method: 'POST',
      url: `${collection}/inbox/refuse`,
      needs: 'write',
      everything: true,
      operation: 'refuseDevices',
      summary: 'Say which devices may post no more',
      params,
      takes: { kind: 'message', head: schemas.refuseHead, parts: 'none' },
      gives: { kind: 'nothing', status: 204 },
      handle: async (call) => {
        const { head } = await call.message<{ devices: number[] }>(schemas.refuseHead, 0);
        await service.refuseDevices(call.name, head.devices, call.options);
      },
    },
    {
      method: 'POST',
      url: `${collection}/purge`,
      needs: 'write',
      everything: true,
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
      everything: true,
      operation: 'snapshot',
      summary: 'The whole collection as one stream',
      params,
      gives: { kind: 'octets', status: 200, description: 'a snapshot' },
      endless: true,
      heavy: true,
      handle: (call) => call.pieces(service.snapshot(call.name, call.options)),
    },
    {
      method: 'PUT',
      url: `${collection}/snapshot`,
      needs: 'admin',
      everything: true,
      operation: 'restore',
      summary: 'Make a collection of a snapshot',
      params,
      takes: { kind: 'octets', description: 'a snapshot of any size' },
      gives: { kind: 'nothing', status: 204 },
      endless: true,
      heavy: true,
      handle: (call) => service.restore(call.name, call.stream(), call.options),
    },
  ];
}

/** The queries of questions in the inbox; NOT_FOUND where there is none of a number. */
async function questionsIn(service: Service, call: Call, numbers: readonly number[]): Promise<Uint8Array[]> {
  const queries: Uint8Array[] = [];
  for (const number of numbers) {
    const range = { after: number - 1, limit: 1 };
    const [item] = await Array.fromAsync(service.takeInbox(call.name, range, call.options));
    queries.push(questionIn(item?.number === number ? item.envelope : undefined, number));
  }
  return queries;
}

async function* inboxParts(items: AsyncIterable<InboxItem>): AsyncGenerator<readonly ItemParts[]> {
  for await (const item of items) yield [encodeInboxItem(item)];
}

/** The routes about the server itself; the last two describe all of them. */
function serverRoutes(service: Service, parts: Parts, all: () => readonly Route[]): Route[] {
  const document = once(() => JSON.stringify(openApi(all(), VERSION)));
  const page = once(() => docsPage(all(), VERSION));
  return [
    {
      method: 'GET',
      url: '/healthz',
      needs: 'open',
      operation: 'health',
      summary: 'Whether the process answers',
      gives: { kind: 'text', status: 200, type: 'text/plain', description: 'ok' },
      handle: async ({ reply }) => reply.type('text/plain').send('ok\n'),
    },
    {
      method: 'GET',
      url: '/readyz',
      needs: 'open',
      operation: 'ready',
      summary: 'Whether it takes requests: the gallery is open and it is not going down',
      gives: { kind: 'text', status: 200, type: 'text/plain', description: 'ready' },
      handle: async ({ reply }) => {
        if (parts.closing) throw new HersError('UNAVAILABLE', 'the server is going down');
        // No collection has this name: an open gallery says so, and does nothing else.
        await service.getCollection('').catch((error) => {
          if (!(error instanceof HersError && error.code === 'NOT_FOUND')) throw error;
        });
        return reply.type('text/plain').send('ready\n');
      },
    },
    {
      method: 'GET',
      url: '/metrics',
      needs: 'search',
      whole: true,
      operation: 'metrics',
      summary: 'Numbers for Prometheus',
      gives: { kind: 'text', status: 200, type: 'text/plain', description: 'Prometheus text format 0.0.4' },
      handle: async ({ reply }) =>
        reply.type('text/plain; version=0.0.4; charset=utf-8').send(
          parts.metrics.text({
            scansRunning: () => parts.scans.running,
            scansWaiting: () => parts.scans.waiting,
            requestsRunning: () => parts.connections.requests,
            connections: () => parts.connections.size,
            held: () => parts.guests.memory.held,
            device: parts.device,
          }),
        ),
    },
    {
      method: 'GET',
      url: '/openapi.json',
      needs: 'open',
      operation: 'openapi',
      summary: 'These paths, for programs',
      gives: { kind: 'text', status: 200, type: 'application/json', description: 'OpenAPI 3.1' },
      handle: async ({ reply }) => reply.type(JSON_TYPE).send(document()),
    },
    {
      method: 'GET',
      url: '/docs',
      needs: 'open',
      operation: 'docs',
      summary: 'These paths, for people',
      gives: { kind: 'text', status: 200, type: 'text/html', description: 'a page' },
      handle: async ({ reply }) => {
        reply.header('content-security-policy', `default-src 'none'; style-src ${STYLE_HASH}; frame-ancestors 'none'`);
        return reply.type('text/html; charset=utf-8').send(page());
      },
    },
  ];
}

/** Makes the text when it is first wanted. */
function once(make: () => string): () => string {
  let made: string | undefined;
  return () => (made ??= make());
}

function recordsOf(call: Call): Grouped<SealedRecord> {
  let largest = 0;
  const recordOf = (content: Uint8Array) => {
    if (content.length < HANDLE_BYTES) throw new HersError('MALFORMED', 'a record begins with its handle');
    // It is copied into what is written next, and known until it is committed.
    call.hold(Math.max(0, content.length - largest));
    largest = Math.max(largest, content.length);
    call.guest.hold.takeWithin(STAGED_COST, 'these records');
    return { handle: content.subarray(0, HANDLE_BYTES), sealed: content.subarray(HANDLE_BYTES) };
  };
  return new Grouped(async function* () {
    for await (const group of unframeGroups(call.stream(), call.limits.bodyBytes, call.hold)) yield group.map(recordOf);
  });
}

/** The collection that a token is for, where it is there. */
async function onlyThat(service: Service, name: string): Promise<CollectionInfo[]> {
  try {
    return [await service.getCollection(name)];
  } catch (error) {
    if (error instanceof HersError && error.code === 'NOT_FOUND') return [];
    throw error;
  }
}

/** How much there is in other partitions is not for tokens that are limited to some. */
function shownTo({ partitions }: Call, info: CollectionInfo): CollectionInfo {
  return partitions ? { ...info, records: 0, blocks: 0, bytes: 0 } : info;
}

function* inPieces(whole: Uint8Array): Generator<Uint8Array> {
  for (let at = 0; at < whole.length; at += PIECE_BYTES) yield whole.subarray(at, at + PIECE_BYTES);
}

// Items for `Call.items`: several at a time, each of one or more parts.

async function* recordParts(records: AsyncIterable<SealedRecord>): AsyncGenerator<ItemParts[]> {
  for await (const { handle, sealed } of records) yield [[handle, sealed]];
}

async function* listParts(lists: AsyncIterable<Uint8Array>): AsyncGenerator<ItemParts[]> {
  for await (const list of lists) yield [[list]];
}

/** What is made of open queries: their rows, as many at a time as a store expands. */
function openCost(queries: readonly Uint8Array[]): number {
  const sizes = queries.map((query) => expandedBytes(query));
  const total = sizes.reduce((sum, bytes) => sum + bytes, 0);
  return Math.min(total, Math.max(EXPANDED_BYTES, ...sizes));
}
