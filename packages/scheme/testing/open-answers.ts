// Known answers of open queries: every message from fixed seeds. open-answers.json holds what must
// come out, whatever code computes.

import { sha256 } from '@noble/hashes/sha2.js';
import { encodeBlock } from '../src/block.ts';
import { encodeOpenQuery } from '../src/open/query.ts';
import type { PlanRequest } from '../src/plan.ts';
import { coordinate } from './known-answers.ts';
import { openCollection, SMALL } from './open.ts';

const CASES: readonly { readonly name: string; readonly request: PlanRequest; readonly count: number }[] = [
  { name: 'small cosine', request: { ...SMALL, dimension: 4 }, count: 9 },
  { name: 'small dot, several masks', request: { ...SMALL, dimension: 30, metric: 'dot', normBound: 4 }, count: 128 },
  { name: 'small euclidean', request: { ...SMALL, dimension: 7, metric: 'euclidean', normBound: 2 }, count: 20 },
  { name: 'cosine', request: { dimension: 9 }, count: 40 },
];

const hex = (bytes: Uint8Array) => Array.from(bytes, (b) => b.toString(16).padStart(2, '0')).join('');

/** Whole where it is short, else its length and hash. */
const message = (bytes: Uint8Array) =>
  bytes.length <= 400 ? { hex: hex(bytes) } : { bytes: bytes.length, sha256: hex(sha256(bytes)) };

function answer({ name, request, count }: (typeof CASES)[number]) {
  const c = openCollection(request, name);
  const { galleryScale, queryScale, unit, responseBits, levels } = c.plan;
  const vector = (j: number) => Array.from({ length: request.dimension }, (_, i) => coordinate(j, i));
  const gallery = Array.from({ length: count }, (_, j) => vector(j));
  const block = c.block(gallery);
  const [short, open] = [c.short(vector(3)), c.public(vector(3))];
  return {
    name,
    request,
    plan: { galleryScale, queryScale, unit, responseBits, levels },
    keyId: hex(c.key.keyId),
    evaluation: c.pieces.map(message),
    publicKey: message(c.publicKey),
    block: message(encodeBlock(block)),
    short: message(encodeOpenQuery(short)),
    public: message(encodeOpenQuery(open)),
    shortResponse: message(c.answer(short, [block])),
    publicResponse: message(c.answer(open, [block, block])),
    scores: [...c.scores(short, [block], vector(3))[0]],
  };
}

/** All of them, as plain JSON. */
export function openAnswers() {
  return CASES.map(answer);
}
