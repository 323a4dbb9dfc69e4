// What requests and answers look like: validated against, and published as /openapi.json.

import { COLLECTION_NAME } from '@hers/service';

const name = { type: 'string', pattern: COLLECTION_NAME } as const;
const hexDigits = (bytes: number) => ({ type: 'string', pattern: `^[0-9a-f]{${2 * bytes}}$` }) as const;
const count = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER } as const;
// A cluster names what is staged by the names that each shard gave it.
const stage = { type: 'string', minLength: 1, maxLength: 8192 } as const;
const stages = { type: 'array', items: stage, maxItems: 65536 } as const;

function object<P extends Record<string, unknown>>(properties: P, ...optional: (keyof P)[]) {
  const required = Object.keys(properties).filter((key) => !optional.includes(key));
  return { type: 'object', properties, required, additionalProperties: false } as const;
}

export const collectionParams = object({ name });
export const blockParams = object({ name, block: hexDigits(16) });

export const errorBody = object({
  code: { type: 'string', description: 'what went wrong, for programs' },
  message: { type: 'string', description: 'what went wrong and what to do, for people' },
  retryable: { type: 'boolean', description: 'whether the same request may succeed later' },
});

export const helloBody = object({
  server: { type: 'string', const: 'hers' },
  version: { type: 'string' },
  bodyBytes: count,
});

export const collectionBody = object({
  name,
  id: hexDigits(16),
  descriptor: { type: 'string', description: "the client's description, in base64" },
  version: count,
  records: count,
  blocks: count,
  bytes: count,
});
export const collectionsBody = object({ collections: { type: 'array', items: collectionBody } });
export const stageBody = object({ stage });
export const versionBody = object({ version: count });

export const createHead = object({ name, id: hexDigits(16) });
export const commitHead = object(
  {
    expected: count,
    records: stages,
    blocks: stages,
    lists: stages,
  },
  'records',
  'blocks',
  'lists',
);
const { properties: commitFields } = commitHead;
export const prepareHead = object(
  {
    ...commitFields,
    version: count,
    basis: hexDigits(16),
    partitions: { type: 'array', items: hexDigits(8), maxItems: 1000 },
  },
  'records',
  'blocks',
  'lists',
  'partitions',
);
export const applyHead = object({ change: stage, version: count, state: hexDigits(16) });
export const stateBody = object({ version: count, state: hexDigits(16) });
export const drainHead = object({ node: { type: 'string', maxLength: 64 }, draining: { type: 'boolean' } });
export const replicasHead = object({ replicas: count });
export const searchShardsHead = object(
  {
    shards: {
      type: 'array',
      minItems: 1,
      maxItems: 4096,
      items: object(
        { name, version: count, state: hexDigits(16), some: { type: 'boolean' }, lists: { type: 'boolean' } },
        'some',
        'state',
        'lists',
      ),
    },
    evaluation: { type: 'boolean' },
    devices: { type: 'boolean' },
  },
  'evaluation',
  'devices',
);
const few = (items: object) => ({ type: 'array', items, maxItems: 1000 }) as const;
export const searchHead = object(
  {
    version: count,
    some: { type: 'boolean' },
    evaluation: { type: 'boolean' },
    devices: { type: 'boolean' },
    partial: { type: 'boolean' },
    inbox: { ...few({ ...count, minimum: 1 }), maxItems: 64 },
  },
  'some',
  'evaluation',
  'devices',
  'partial',
  'inbox',
);
export const postBody = object({ number: count });
export const takeHead = object(
  { after: count, limit: { type: 'integer', minimum: 1, maximum: 1000 } },
  'after',
  'limit',
);
export const dropHead = object({ numbers: few(count) });
export const refuseHead = object({
  devices: { type: 'array', items: { ...count, maximum: 2 ** 32 - 1 }, maxItems: 100_000 },
});
export const manifestHead = object({ version: count });

const tokenId = hexDigits(6);
const scope = { type: 'string', enum: ['device', 'search', 'write', 'admin'] } as const;
const device = { ...count, minimum: 1, maximum: 2 ** 32 - 1 } as const;
const text = { type: 'string' } as const;
export const tokenParams = object({ token: tokenId });
const token = object(
  {
    id: tokenId,
    scope,
    collection: name,
    partitions: { type: 'array', items: text },
    device,
    note: text,
    created: text,
    by: tokenId,
  },
  'collection',
  'partitions',
  'device',
  'note',
  'by',
);
export const tokensBody = object({ tokens: { type: 'array', items: token } });
export const newTokenHead = object(
  { scope, collection: name, device, note: { type: 'string', maxLength: 200 } },
  'collection',
  'device',
  'note',
);
export const madeTokenBody = object({ token, secret: text });
export const auditBody = object({ entries: { type: 'array', items: { type: 'object', additionalProperties: true } } });
export const findingsBody = object({
  findings: {
    type: 'array',
    items: object(
      { check: text, level: { type: 'string', enum: ['ok', 'note', 'problem'] }, found: text, advice: text },
      'advice',
    ),
  },
});
export const clusterBody = { type: 'object', additionalProperties: true } as const;
