// What each request is, and what a server can conclude from it.

/** A call of the server, by its name in its documentation. */
export type Operation =
  | 'hello'
  | 'listCollections'
  | 'createCollection'
  | 'getCollection'
  | 'deleteCollection'
  | 'getManifest'
  | 'stageRecords'
  | 'getRecords'
  | 'stageList'
  | 'getLists'
  | 'stageBlock'
  | 'getBlock'
  | 'commit'
  | 'search'
  | 'purge'
  | 'snapshot'
  | 'restore'
  | 'metrics'
  | 'server'
  | 'page'
  | 'other';

const COLLECTION: readonly (readonly [method: string, rest: RegExp, operation: Operation])[] = [
  ['GET', /^$/, 'getCollection'],
  ['DELETE', /^$/, 'deleteCollection'],
  ['GET', /^\/manifest$/, 'getManifest'],
  ['PUT', /^\/records$/, 'stageRecords'],
  ['POST', /^\/records\/get$/, 'getRecords'],
  ['POST', /^\/lists$/, 'stageList'],
  ['POST', /^\/lists\/get$/, 'getLists'],
  ['POST', /^\/blocks$/, 'stageBlock'],
  ['GET', /^\/blocks\/[^/]+$/, 'getBlock'],
  ['POST', /^\/commit$/, 'commit'],
  ['POST', /^\/search$/, 'search'],
  ['POST', /^\/purge$/, 'purge'],
  ['GET', /^\/snapshot$/, 'snapshot'],
  ['PUT', /^\/snapshot$/, 'restore'],
];

export function operationOf(
  method: string,
  path: string,
): { readonly operation: Operation; readonly collection: string | undefined } {
  if (path === '/v1') return { operation: 'hello', collection: undefined };
  if (path === '/v1/collections')
    return { operation: method === 'POST' ? 'createCollection' : 'listCollections', collection: undefined };
  if (path === '/metrics') return { operation: 'metrics', collection: undefined };
  if (path.startsWith('/v1/server/')) return { operation: 'server', collection: undefined };
  if (path.startsWith('/console/')) return { operation: 'page', collection: undefined };
  const [, collection, rest = ''] = /^\/v1\/collections\/([^/]+)(.*)$/.exec(path) ?? [];
  const found = COLLECTION.find(([verb, pattern]) => verb === method && pattern.test(rest));
  return collection === undefined || !found ? { operation: 'other', collection } : { operation: found[2], collection };
}

/** Short, for a line of the log. */
export const NAMES: Readonly<Record<Operation, string>> = {
  hello: 'greeting',
  listCollections: 'list of collections',
  createCollection: 'new collection',
  getCollection: 'about a collection',
  deleteCollection: 'delete a collection',
  getManifest: 'manifest',
  stageRecords: 'sealed records',
  getRecords: 'fetch of records',
  stageList: 'sealed list',
  getLists: 'fetch of lists',
  stageBlock: 'encrypted block',
  getBlock: 'fetch of a block',
  commit: 'commit',
  search: 'search',
  purge: 'purge',
  snapshot: 'snapshot',
  restore: 'restore',
  metrics: 'metrics',
  server: 'about the server',
  page: 'this page',
  other: 'other',
};

/** What a server learns from it, and what not. The table of docs/concepts.md, as sentences. */
export const LEARNS: Readonly<Record<Operation, string>> = {
  hello: 'that somebody is there',
  listCollections: 'that somebody asks what there is; it knows names, sizes and versions anyway',
  createCollection: 'the name, the dimension and the profile of a new collection; not what will be in it',
  getCollection: 'that somebody asks about this collection',
  deleteCollection: 'that the collection is deleted',
  getManifest: 'that somebody reads the sealed list of what the collection consists of; not what is in it',
  stageRecords:
    'how many records come, how long each is sealed, and which handles they replace; no id, vector, payload',
  getRecords: 'which records these are, by their handles; not their ids, and not what is in them',
  stageList: 'how long a sealed list is',
  getLists: 'which lists are read; not what is in them',
  stageBlock: 'that a block of encrypted templates comes; it cannot read one of them',
  getBlock: 'which block is read',
  commit: 'that the collection changes, how many records go, and when',
  search: 'that there was a search; not the probe, not the scores, not who matched, not whether anyone did',
  purge: 'that deleted data is to disappear from the disk',
  snapshot: 'that the collection is copied, as encrypted as it is stored',
  restore: 'that a collection is restored, as encrypted as it was stored',
  metrics: 'that somebody looks at its numbers',
  server: 'that whoever runs it looks at it or changes its tokens; nothing of the gallery',
  page: 'nothing: this is the console itself',
  other: 'that this path was asked for',
};
