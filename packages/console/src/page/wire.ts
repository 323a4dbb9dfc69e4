// Everything that leaves this page. The client asks by `fetch`, and the policy of the page allows
// no other address, so what passes here is all that a server can see.

import { type Signal, signal } from '@preact/signals';

/** A request as the server sees it, and when it was where. Times are those of `performance`. */
export interface Exchange {
  readonly number: number;
  readonly operation: Operation;
  readonly collection: string | undefined;
  readonly method: string;
  readonly path: string;
  readonly sent: number;
  /** The first bytes of what was sent, to be looked at. */
  readonly sample: Uint8Array;
  /** Handles that it names, hexadecimal. */
  readonly handles: readonly string[];
  readonly beganAt: number;
  readonly headAt?: number;
  readonly endedAt?: number;
  readonly received: number;
  readonly status?: number;
}

/** Those that the log keeps. */
const KEPT = 200;
const SAMPLE_BYTES = 2 ** 14;
const HANDLE_BYTES = 16;
/** Of answers that have no body (Fetch standard, null body status). */
const EMPTY: ReadonlySet<number> = new Set([101, 103, 204, 205, 304]);
/** A line of the log is drawn again at most so often while its answer comes. */
const REDRAW_MS = 100;

/** The newest last. */
export const exchanges: Signal<readonly Exchange[]> = signal([]);
/** Bytes in both directions since the page was opened or the log emptied. */
export const traffic: Signal<{ readonly sent: number; readonly received: number; readonly requests: number }> = signal({
  sent: 0,
  received: 0,
  requests: 0,
});

let next = 1;

export function forgetExchanges(): void {
  exchanges.value = [];
  traffic.value = { sent: 0, received: 0, requests: 0 };
}

function change(number: number, part: Partial<Exchange>): void {
  exchanges.value = exchanges.value.map((each) => (each.number === number ? { ...each, ...part } : each));
}

const hex = (bytes: Uint8Array) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

function handlesIn(operation: Operation, body: Uint8Array): string[] {
  if (operation !== 'getRecords') return [];
  return Array.from({ length: body.length / HANDLE_BYTES }, (_, i) =>
    hex(body.subarray(i * HANDLE_BYTES, (i + 1) * HANDLE_BYTES)),
  );
}

function note(method: string, path: string, body: Uint8Array): Exchange {
  const { operation, collection } = operationOf(method, path);
  const exchange: Exchange = {
    number: next++,
    operation,
    collection,
    method,
    path,
    sent: body.length,
    sample: body.slice(0, SAMPLE_BYTES),
    handles: handlesIn(operation, body),
    beganAt: performance.now(),
    received: 0,
  };
  exchanges.value = [...exchanges.value.slice(1 - KEPT), exchange];
  const { sent, received, requests } = traffic.value;
  traffic.value = { sent: sent + body.length, received, requests: requests + 1 };
  return exchange;
}

/** The answer, with its bytes counted as they are read. */
function counted(answer: Response, number: number): Response {
  let [received, drawnAt] = [0, 0];
  const count = (isEnd: boolean) => {
    const now = performance.now();
    if (!isEnd && now - drawnAt < REDRAW_MS) return;
    drawnAt = now;
    change(number, { received, ...(isEnd ? { endedAt: now } : {}) });
  };
  const add = (bytes: number) => {
    received += bytes;
    traffic.value = { ...traffic.value, received: traffic.value.received + bytes };
  };
  // An answer without a body cannot be made again with one.
  if (!answer.body || EMPTY.has(answer.status)) {
    count(true);
    return answer;
  }
  const { readable, writable } = new TransformStream<Uint8Array, Uint8Array>({
    transform(piece, controller) {
      add(piece.length);
      count(false);
      controller.enqueue(piece);
    },
  });
  // However it ends: read to its end, broken off, or not wanted any more.
  const end = () => count(true);
  answer.body.pipeTo(writable).then(end, end);
  return new Response(readable, { status: answer.status, statusText: answer.statusText, headers: answer.headers });
}

/**
 * Takes the place of `fetch`: notes what is sent, and adds what the console's own server wants to
 * see (`headers`) and its cookie, which the client leaves out.
 */
export function watchFetch(headers: () => Record<string, string>): void {
  const plain = globalThis.fetch;
  globalThis.fetch = async (input, init = {}) => {
    const { pathname } = new URL(input instanceof Request ? input.url : String(input), location.href);
    const body = init.body instanceof Uint8Array ? init.body : new Uint8Array(0);
    const { number } = note(init.method ?? 'GET', pathname, body);
    try {
      const all = { ...(init.headers as Record<string, string> | undefined), ...headers() };
      const answer = await plain(input, { ...init, headers: all, credentials: 'same-origin' });
      change(number, { headAt: performance.now(), status: answer.status });
      // What leads elsewhere has no body to read, and a type that the client looks at.
      return answer.type === 'opaqueredirect' ? answer : counted(answer, number);
    } catch (error) {
      change(number, { endedAt: performance.now(), status: 0 });
      throw error;
    }
  };
}

// What each request is, and what a server can conclude from it.

/**
 * Calls of the server, by their names in its documentation: short, for a line of the log, and what
 * the server learns, and what not. The table of docs/concepts.md, as sentences.
 */
const OPERATIONS = {
  hello: ['greeting', 'that somebody is there'],
  listCollections: [
    'list of collections',
    'that somebody asks what there is; it knows names, sizes and versions anyway',
  ],
  createCollection: [
    'new collection',
    'the name, the dimension and the profile of a new collection; not what will be in it',
  ],
  getCollection: ['about a collection', 'that somebody asks about this collection'],
  deleteCollection: ['delete a collection', 'that the collection is deleted'],
  getManifest: [
    'manifest',
    'that somebody reads the sealed list of what the collection consists of; not what is in it',
  ],
  stageRecords: [
    'sealed records',
    'how many records come, how long each is sealed, and which handles they replace; no id, vector, payload',
  ],
  getRecords: ['fetch of records', 'which records these are, by their handles; not their ids, and not what is in them'],
  stageList: ['sealed list', 'how long a sealed list is'],
  getLists: ['fetch of lists', 'which lists are read; not what is in them'],
  stageBlock: ['encrypted block', 'that a block of encrypted templates comes; it cannot read one of them'],
  getBlock: ['fetch of a block', 'which block is read'],
  commit: ['commit', 'that the collection changes, how many records go, and when'],
  search: ['search', 'that there was a search; not the probe, not the scores, not who matched, not whether anyone did'],
  purge: ['purge', 'that deleted data is to disappear from the disk'],
  snapshot: ['snapshot', 'that the collection is copied, as encrypted as it is stored'],
  restore: ['restore', 'that a collection is restored, as encrypted as it was stored'],
  metrics: ['metrics', 'that somebody looks at its numbers'],
  server: ['about the server', 'that whoever runs it looks at it or changes its tokens; nothing of the gallery'],
  page: ['this page', 'nothing: this is the console itself'],
  other: ['other', 'that this path was asked for'],
} as const;

export type Operation = keyof typeof OPERATIONS;

export const nameOf = (operation: Operation): string => OPERATIONS[operation][0];
export const learnedFrom = (operation: Operation): string => OPERATIONS[operation][1];

/** Methods and paths, a collection's own as an asterisk. */
const PATHS: readonly (readonly [pattern: RegExp, operation: Operation])[] = [
  [/ \/v1$/, 'hello'],
  [/^POST \/v1\/collections$/, 'createCollection'],
  [/ \/v1\/collections$/, 'listCollections'],
  [/^GET \*$/, 'getCollection'],
  [/^DELETE \*$/, 'deleteCollection'],
  [/^GET \*\/manifest$/, 'getManifest'],
  [/^PUT \*\/records$/, 'stageRecords'],
  [/^POST \*\/records\/get$/, 'getRecords'],
  [/^POST \*\/lists$/, 'stageList'],
  [/^POST \*\/lists\/get$/, 'getLists'],
  [/^POST \*\/blocks$/, 'stageBlock'],
  [/^GET \*\/blocks\/[^/]+$/, 'getBlock'],
  [/^POST \*\/commit$/, 'commit'],
  [/^POST \*\/search$/, 'search'],
  [/^POST \*\/purge$/, 'purge'],
  [/^GET \*\/snapshot$/, 'snapshot'],
  [/^PUT \*\/snapshot$/, 'restore'],
  [/ \/metrics$/, 'metrics'],
  [/ \/v1\/server\//, 'server'],
  [/ \/console\//, 'page'],
];

function operationOf(method: string, path: string): Pick<Exchange, 'operation' | 'collection'> {
  const [own = '', collection] = /^\/v1\/collections\/([^/]+)/.exec(path) ?? [];
  const place = `${method} ${own === '' ? path : `*${path.slice(own.length)}`}`;
  return { operation: PATHS.find(([pattern]) => pattern.test(place))?.[1] ?? 'other', collection };
}
