// The thread of evaluator.ts: prepares evaluation keys, expands queries and packs results with
// them. Its memory is theirs, and is gone when it ends.

import { availableParallelism } from 'node:os';
import { HersError } from '@hers/scheme';
import {
  decodeEvaluation,
  decodeOpenQuery,
  type EvaluationPiece,
  Evaluator,
  encodePackedResponse,
  evaluationKeys,
  type OpenQuery,
  resultOf,
} from '@hers/scheme/open';
import { freeBytes } from '@hers/service';
import { hex } from '../base/bytes.ts';
import { serveThread } from '../base/thread.ts';
import type { EvaluationRequest } from './evaluator.ts';

/** By the id of their key. */
let pieces = new Map<string, EvaluationPiece[]>();
const evaluators = new Map<string, Evaluator>();
/** Queries that results may come for. */
const queries = new Map<number, OpenQuery>();
const threads = availableParallelism();

function evaluatorOf({ keyId }: OpenQuery): Evaluator {
  const evaluator = evaluators.get(hex(keyId));
  if (!evaluator)
    throw new HersError('KEY_MISMATCH', 'none of the evaluation keys that were named is of the key of this query');
  return evaluator;
}

/** Frees what was prepared, which is as large as what came of it (docs/tuning.md). */
function free({ steps, last, masks, packing, devices }: ReturnType<typeof evaluationKeys>): void {
  const parts = [steps, last, masks, [...devices.values()], packing.map(({ mask, bodies }) => [mask, bodies])];
  freeBytes(...(parts.flat(9) as Uint32Array[]));
}

function perform(request: EvaluationRequest): { readonly done: unknown; readonly transfer?: ArrayBuffer[] } {
  const { kind } = request;
  if (kind === 'piece') {
    const piece = decodeEvaluation(request.bytes);
    const keyId = hex(piece.keyId);
    pieces.set(keyId, [...(pieces.get(keyId) ?? []), piece]);
    return { done: undefined };
  }
  if (kind === 'prepare') {
    let bytes = 0;
    for (const [keyId, own] of pieces) {
      const keys = evaluationKeys(own);
      const evaluator = new Evaluator(keys);
      free(keys);
      evaluators.set(keyId, evaluator);
      bytes += evaluator.bytes;
    }
    pieces = new Map();
    return { done: bytes };
  }
  if (kind === 'expand') {
    const query = decodeOpenQuery(request.query);
    const device = request.device && decodeEvaluation(request.device);
    const rows = evaluatorOf(query).expand(query, threads, device);
    queries.set(request.number, query);
    return { done: rows, transfer: [rows.bodies.buffer as ArrayBuffer, rows.masks.buffer as ArrayBuffer] };
  }
  if (kind === 'pack') {
    const query = queries.get(request.number)!;
    const { responses, lengths } = request;
    let at = 0;
    const results = lengths.map((length) => resultOf(responses.subarray(at, (at += length))));
    const packed = encodePackedResponse(evaluatorOf(query).pack(query, results));
    return { done: packed, transfer: [packed.buffer as ArrayBuffer] };
  }
  queries.delete(request.number);
  return { done: undefined };
}

serveThread(async (request: EvaluationRequest) => perform(request));
