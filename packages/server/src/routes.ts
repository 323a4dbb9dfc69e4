// Every path of the server: what it takes, what it answers, who may. The table is the router, the
// validation and /openapi.json at once.

import {
  COMMIT_PARTS,
  type CollectionInfo,
  type CommitHead,
  type CreateHead,
  checkBlocks,
  decodeCommit,
  decodeSearch,
  EXPANDED_BYTES,
  encodeInboxItem,
  encodeInfo,
  encodeMessage,
  expandedBytes,
  fromHex,
  Grouped,
  HANDLE_BYTES,
  type HelloBody,
  HersError,
  type InboxRange,
  LIST_ID_BYTES,
  MAX_IDS,
  type OpenSearch,
  questionIn,
  SEARCH_PARTS,
  type SealedRecord,
  type SearchHead,
  type SearchRequest,
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

/** Makes a row of the table; one that says nothing else takes nothing and answers with nothing. */
export function route(
  path: `${Route['method']} /${string}`,
  needs: Route['needs'],
  operation: string,
  summary: string,
  more: Partial<Route> & Pick<Route, 'handle'>,
): Route {
  const [method, url] = path.split(' ') as [Route['method'], string];
  const params = schemas.paramsOf(url);
  return { method, url, needs, operation, summary, gives: { kind: 'nothing', status: 204 }, ...params, ...more };
}

export const message = (head: object, parts = 'none'): NonNullable<Route['takes']> => ({
  kind: 'message',
  head,
  parts,
});
const body = (description: string) => ({ kind: 'octets', description }) as const;
export const json = (body: object, status: 200 | 201 = 200): Route['gives'] => ({ kind: 'json', status, body });
export const octets = (description: string, head?: object): Route['gives'] => ({
  kind: 'octets',
  status: 200,
  description,
  ...(head && { head }),
});
const text = (type: string, description: string) => ({ kind: 'text', status: 200, type, description }) as const;

export const COLLECTION = '/v1/collections/:name';
const MAX_QUERIES = 1024;
/**
 * What is made of a query when it is scanned for, in queries: a copy, its other half, sums and
 * answers.
 */
const QUERY_COST = 3;
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
  return [
    route('GET /v1', 'search', 'hello', 'What this server is and takes', {
      gives: json(schemas.helloBody),
      handle: async ({ limits }): Promise<HelloBody> => ({
        server: 'hers',
        version: VERSION,
        bodyBytes: limits.bodyBytes,
      }),
    }),
    route('GET /v1/collections', 'search', 'listCollections', 'All collections, or the one that the token is for', {
      gives: json(schemas.collectionsBody),
      handle: async (call) => {
        const only = call.token?.collection;
        const all = only === undefined ? await service.listCollections() : await onlyThat(service, only);
        call.hold(all.reduce((sum, { descriptor }) => sum + INFO_COST + 4 * descriptor.length, 0));
        return { collections: all.map((info) => encodeInfo(shownTo(call, info))) };
      },
    }),
    route('POST /v1/collections', 'admin', 'createCollection', 'Make a collection', {
      everything: true,
      takes: message(schemas.createHead, 'the descriptor, the manifest'),
      handle: async (call) => {
        const { head, parts } = await call.message<CreateHead>(schemas.createHead, 2);
        const [descriptor, manifest] = parts;
        if (!descriptor || !manifest)
          throw new HersError('MALFORMED', `this message has ${parts.length} parts, and should have 2`);
        call.touch(head.name);
        await service.createCollection(head.name, { id: fromHex(head.id), descriptor, manifest });
      },
    }),
    route(`GET ${COLLECTION}`, 'search', 'getCollection', 'One collection', {
      gives: json(schemas.collectionBody),
      handle: async (call) => encodeInfo(shownTo(call, await service.getCollection(call.name))),
    }),
    route(`DELETE ${COLLECTION}`, 'admin', 'deleteCollection', 'Delete a collection and everything in it', {
      everything: true,
      handle: ({ name }) => service.deleteCollection(name),
    }),
    route(`GET ${COLLECTION}/manifest`, 'search', 'getManifest', 'The manifest and its version', {
      gives: octets('a message: the head, the manifest', schemas.manifestHead),
      handle: async (call) => {
        const { version, manifest } = await service.getManifest(call.name, call.options);
        call.hold(2 * manifest.length);
        return call.pieces(inPieces(encodeMessage({ version }, [manifest])));
      },
    }),
    route(`PUT ${COLLECTION}/records`, 'write', 'stageRecords', 'Stage sealed records', {
      takes: body('frames: handle (16 bytes) and sealed record'),
      gives: json(schemas.stageBody, 201),
      endless: true,
      handle: async (call) => ({
        stage: await service.stageRecords(call.name, recordsOf(call), call.options),
      }),
    }),
    route(`POST ${COLLECTION}/records/get`, 'search', 'getRecords', 'Sealed records by their handles, in that order', {
      takes: body('handles of 16 bytes, one behind the other'),
      gives: octets('items: handle and sealed record'),
      handle: async (call) => {
        const handles = call.ids(await call.octets(), HANDLE_BYTES, 'a handle', MAX_IDS);
        const records = service.getRecords(call.name, handles, call.options);
        return call.items(inParts(records, ({ handle, sealed }) => [handle, sealed]));
      },
    }),
    route(`POST ${COLLECTION}/lists`, 'write', 'stageList', 'Stage a sealed list', {
      takes: body('the sealed list'),
      gives: json(schemas.stageBody, 201),
      handle: async (call) => ({ stage: await service.stageList(call.name, await call.octets(), call.options) }),
    }),
    route(`POST ${COLLECTION}/lists/get`, 'search', 'getLists', 'Sealed lists by the SHA-256 of their bytes', {
      takes: body('ids of 32 bytes, one behind the other'),
      gives: octets('items: sealed lists'),
      handle: async (call) => {
        const ids = call.ids(await call.octets(), LIST_ID_BYTES, 'a list id', MAX_IDS);
        return call.items(inParts(service.getLists(call.name, ids, call.options), (list) => [list]));
      },
    }),
    route(`POST ${COLLECTION}/blocks`, 'write', 'stageBlock', 'Stage an encrypted block', {
      takes: body('the encoded block'),
      gives: json(schemas.stageBody, 201),
      handle: async (call) => ({
        stage: await service.stageBlock(call.name, [await call.octets()], call.options),
      }),
    }),
    route(`GET ${COLLECTION}/blocks/:block`, 'search', 'getBlock', 'An encrypted block as it came', {
      gives: octets('the encoded block'),
      handle: async (call) => {
        const { block } = call.request.params as { block: string };
        return call.pieces(service.getBlock(call.name, fromHex(block), call.options));
      },
    }),
    route(
      `POST ${COLLECTION}/commit`,
      'write',
      'commit',
      'Make what was staged part of the collection, if it still has the version the change is based on',
      {
        takes: message(
          schemas.commitHead,
          'the manifest; handles to remove (16 bytes each); blocks to drop (16); lists to drop (32)',
        ),
        gives: json(schemas.versionBody),
        handle: async (call) => {
          const message = await call.message<CommitHead>(schemas.commitHead, COMMIT_PARTS);
          const change = decodeCommit(message);
          return { version: await service.commit(call.name, change, call.options) };
        },
      },
    ),
    route(`POST ${COLLECTION}/search`, 'search', 'search', 'Scan the collection for encrypted queries', {
      takes: message(
        schemas.searchHead,
        'with some: the ids of the blocks to scan, 16 bytes each; with open: the ids of the lists of evaluation keys, and the ids of those of single devices, 32 bytes each; then the encoded queries',
      ),
      gives: octets('items: encoded responses, in any order; with partial, a cluster ends with its coverage as JSON'),
      handle: async (call) => {
        const message = await call.message<SearchHead>(schemas.searchHead, SEARCH_PARTS + MAX_QUERIES);
        const said = decodeSearch(message, call.unpack);
        const request = said.open ? await withQuestions(service, call, said, said.open) : said;
        call.guest.hold.reserve(QUERY_COST * request.queries.reduce((sum, { length }) => sum + length, 0));
        if (call.partitions) checkBlocks(call.partitions, request.blocks);
        const reply = await call.itemPieces(scans.search(call.name, request, call.guest));
        // A search that ended before its time may still be part of a scan.
        if (!call.signal.aborted) call.freeBody();
        return reply;
      },
    }),
    route(`POST ${COLLECTION}/inbox`, 'device', 'post', 'Put the envelope of a device into the inbox', {
      everything: true,
      takes: body('an envelope: a question or an enrolment'),
      gives: json(schemas.postBody, 201),
      handle: async (call) => {
        const { device } = call.token ?? {};
        return { number: await service.post(call.name, await call.octets(), { ...call.options, device }) };
      },
    }),
    route(`POST ${COLLECTION}/inbox/take`, 'search', 'takeInbox', 'What is in the inbox, by number', {
      everything: true,
      takes: message(schemas.takeHead),
      gives: octets('items: number and time (u64 each), envelope'),
      handle: async (call) => {
        const { head } = await call.message<InboxRange>(schemas.takeHead, 0);
        return call.items(inParts(service.takeInbox(call.name, head, call.options), encodeInboxItem));
      },
    }),
    route(`POST ${COLLECTION}/inbox/drop`, 'write', 'dropInbox', 'Remove items from the inbox', {
      everything: true,
      takes: message(schemas.dropHead),
      handle: async (call) => {
        const { head } = await call.message<{ numbers: number[] }>(schemas.dropHead, 0);
        await service.dropInbox(call.name, head.numbers, call.options);
      },
    }),
    route(`POST ${COLLECTION}/inbox/refuse`, 'write', 'refuseDevices', 'Say which devices may post no more', {
      everything: true,
      takes: message(schemas.refuseHead),
      handle: async (call) => {
        const { head } = await call.message<{ devices: number[] }>(schemas.refuseHead, 0);
        await service.refuseDevices(call.name, head.devices, call.options);
      },
    }),
    route(`POST ${COLLECTION}/purge`, 'write', 'purge', 'Make what was deleted or replaced disappear from the disk', {
      everything: true,
      endless: true,
      handle: ({ name, signal }) => service.purge(name, { signal }),
    }),
    route(`GET ${COLLECTION}/snapshot`, 'admin', 'snapshot', 'The whole collection as one stream', {
      everything: true,
      gives: octets('a snapshot'),
      endless: true,
      heavy: true,
      handle: (call) => call.pieces(service.snapshot(call.name, call.options)),
    }),
    route(`PUT ${COLLECTION}/snapshot`, 'admin', 'restore', 'Make a collection of a snapshot', {
      everything: true,
      takes: body('a snapshot of any size'),
      endless: true,
      heavy: true,
      handle: (call) => service.restore(call.name, call.stream(), call.options),
    }),
  ];
}

/**
 * Reserves memory for what open queries are expanded to, and adds those of questions in the inbox:
 * here, so that they are scanned together with other searches. NOT_FOUND if there is no question of
 * a number.
 */
async function withQuestions(
  service: Service,
  call: Call,
  request: SearchRequest,
  open: OpenSearch,
): Promise<SearchRequest> {
  const queries = [...request.queries];
  for (const number of open.inbox) {
    const range = { after: number - 1, limit: 1 };
    const [item] = await Array.fromAsync(service.takeInbox(call.name, range, call.options));
    queries.push(questionIn(item?.number === number ? item.envelope : undefined, number));
  }
  call.guest.hold.reserve(openCost(queries) + open.devices.length * DEVICE_KEY_BYTES);
  return { ...request, queries, open: { ...open, inbox: [] } };
}

/** The routes about the server itself; the last two describe all of them. */
function serverRoutes(service: Service, parts: Parts, all: () => readonly Route[]): Route[] {
  const document = once(() => JSON.stringify(openApi(all(), VERSION)));
  const page = once(() => docsPage(all(), VERSION));
  return [
    route('GET /healthz', 'open', 'health', 'Whether the process answers', {
      gives: text('text/plain', 'ok'),
      handle: async ({ reply }) => reply.type('text/plain').send('ok\n'),
    }),
    route('GET /readyz', 'open', 'ready', 'Whether it takes requests: the gallery is open and it is not going down', {
      gives: text('text/plain', 'ready'),
      handle: async ({ reply }) => {
        if (parts.closing) throw new HersError('UNAVAILABLE', 'the server is going down');
        // No collection has this name: an open gallery says so, and does nothing else.
        await service.getCollection('').catch((error) => {
          if (!(error instanceof HersError && error.code === 'NOT_FOUND')) throw error;
        });
        return reply.type('text/plain').send('ready\n');
      },
    }),
    route('GET /metrics', 'search', 'metrics', 'Numbers for Prometheus', {
      whole: true,
      gives: text('text/plain', 'Prometheus text format 0.0.4'),
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
    }),
    route('GET /openapi.json', 'open', 'openapi', 'These paths, for programs', {
      gives: text('application/json', 'OpenAPI 3.1'),
      handle: async ({ reply }) => reply.type(JSON_TYPE).send(document()),
    }),
    route('GET /docs', 'open', 'docs', 'These paths, for people', {
      gives: text('text/html', 'a page'),
      handle: async ({ reply }) => {
        reply.header('content-security-policy', `default-src 'none'; style-src ${STYLE_HASH}; frame-ancestors 'none'`);
        return reply.type('text/html; charset=utf-8').send(page());
      },
    }),
  ];
}

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

/** For `Call.items`, which takes several at a time, each of one or more parts. */
async function* inParts<T>(items: AsyncIterable<T>, partsOf: (item: T) => ItemParts): AsyncGenerator<ItemParts[]> {
  for await (const item of items) yield [partsOf(item)];
}

/** What is made of open queries: their rows, as many at a time as a store expands. */
function openCost(queries: readonly Uint8Array[]): number {
  const sizes = queries.map((query) => expandedBytes(query));
  const total = sizes.reduce((sum, bytes) => sum + bytes, 0);
  return Math.min(total, Math.max(EXPANDED_BYTES, ...sizes));
}
