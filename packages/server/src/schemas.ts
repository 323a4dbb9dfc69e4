// What requests and answers look like: validated against, and published as /openapi.json.

import { COLLECTION_NAME } from '@hers/service';

const name = { type: 'string', pattern: COLLECTION_NAME } as const;
const hexDigits = (bytes: number) => ({ type: 'string', pattern: `^[0-9a-f]{${2 * bytes}}$` }) as const;
const count = { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER } as const;
// A cluster names what is staged by the names that each shard gave it.
const stage = { type: 'string', minLength: 1, maxLength: 8192 } as const;
const stages = { type: 'array', items: stage, maxItems: 65536 } as const;

function object(required: Record<string, unknown>, optional: Record<string, unknown> = {}) {
  const properties = { ...required, ...optional };
  return { type: 'object', properties, required: Object.keys(required), additionalProperties: false } as const;
}

/** Returns the schema of the parameters in a path, if it has some. */
export function paramsOf(url: string): { params?: object } {
  const all = { name, block: hexDigits(16), token: tokenId };
  const given = Object.entries(all).filter(([key]) => url.includes(`/:${key}`));
  return given.length > 0 ? { params: object(Object.fromEntries(given)) } : {};
}

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
const staged = { records: stages, blocks: stages, lists: stages };
export const commitHead = object({ expected: count }, staged);
export const prepareHead = object(
  { expected: count, version: count, basis: hexDigits(16) },
  { ...staged, partitions: { type: 'array', items: hexDigits(8), maxItems: 1000 } },
);
export const applyHead = object({ change: stage, version: count, state: hexDigits(16) });
export const stateBody = object({ version: count, state: hexDigits(16) });
export const drainHead = object({ node: { type: 'string', maxLength: 64 }, draining: { type: 'boolean' } });
export const replicasHead = object({ replicas: count });
const flag = { type: 'boolean' } as const;
const few = (items: object) => ({ type: 'array', items, maxItems: 1000 }) as const;
const inbox = { ...few({ ...count, minimum: 1 }), maxItems: 64 };
const searched = { some: flag, partial: flag };
const open = object({ inbox });
export const searchHead = object({ version: count }, { ...searched, open });
const shard = object({ name, version: count }, { ...searched, state: hexDigits(16), lists: flag });
export const searchShardsHead = object(
  { shards: { type: 'array', minItems: 1, maxItems: 4096, items: shard } },
  { open },
);
export const postBody = object({ number: count });
export const takeHead = object({}, { after: count, limit: { type: 'integer', minimum: 1, maximum: 1000 } });
export const dropHead = object({ numbers: few(count) });
export const refuseHead = object({
  devices: { type: 'array', items: { ...count, maximum: 2 ** 32 - 1 }, maxItems: 100_000 },
});
export const manifestHead = object({ version: count });

const tokenId = hexDigits(6);
const scope = { type: 'string', enum: ['device', 'search', 'write', 'admin'] } as const;
const device = { ...count, minimum: 1, maximum: 2 ** 32 - 1 } as const;
const text = { type: 'string' } as const;
const token = object(
  { id: tokenId, scope, created: text },
  { collection: name, partitions: { type: 'array', items: text }, device, note: text, by: tokenId },
);
export const tokensBody = object({ tokens: { type: 'array', items: token } });
const note = { type: 'string', maxLength: 200 };
export const newTokenHead = object({ scope }, { collection: name, device, note });
export const madeTokenBody = object({ token, secret: text });
export const auditBody = object({ entries: { type: 'array', items: { type: 'object', additionalProperties: true } } });
const level = { type: 'string', enum: ['ok', 'note', 'problem'] };
const finding = object({ check: text, level, found: text }, { advice: text });
export const findingsBody = object({ findings: { type: 'array', items: finding } });
export const clusterBody = { type: 'object', additionalProperties: true } as const;
