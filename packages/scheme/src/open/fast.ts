// Expansion and packing as fast as the machine can: native code, or WebAssembly. Equal to
// testing/slow-open.ts to the byte.

import { Expansion, type ExpansionShape, type PreparedKeys, putMaskKey, toMontgomery } from '@hers/ring';
import { HersError } from '../errors.ts';
import { LAST_LEVELS, lastExponent, levelsOf, type OpenSet, ringOf, stepExponent } from '../parameters.ts';
import {
  deviceKeysIn,
  type EvaluationKeys,
  type EvaluationPiece,
  type KeysHead,
  type SwitchingKey,
} from './evaluation.ts';
import { checkResults, type OpenResult, type PackedResponse, packedHead } from './pack.ts';
import { type OpenQuery, queryPair } from './query.ts';
import { EvaluationRing, P2, Q } from './ring.ts';

/** The rows of a query as they are scanned, modulo q in NTT form, one after the other. */
export interface OpenRows {
  /** B and A of the coordinates, then of the mask rows: for each mask its digits. */
  readonly bodies: Uint32Array;
  readonly masks: Uint32Array;
}

/** Refuses a query that these keys cannot expand. */
export function checkExpandable(keys: KeysHead, query: OpenQuery): void {
  if (query.parameters.id !== keys.parameters.id || query.keyId.some((byte, i) => byte !== keys.keyId[i]))
    throw new HersError('KEY_MISMATCH', 'this query belongs to another key than the evaluation keys');
  if (query.width !== keys.width || query.generation !== keys.generation)
    throw new HersError('QUERY_MISMATCH', 'this query was made for other evaluation keys; fetch the newest key');
  if (!keys.devices.has(query.device))
    throw new HersError('KEY_MISMATCH', 'there are no evaluation keys for the device that made this query');
}

export function expansionShape(parameters: OpenSet, width: number): ExpansionShape {
  const { n, digits, digitBits, wideBits, evaluation } = parameters;
  const ring = EvaluationRing.of(parameters);
  const { steps, stride, nodes, masks } = levelsOf(parameters, width);
  return {
    n,
    primes: ring.primes,
    width,
    steps,
    trace: Math.log2(stride),
    nodes,
    masks,
    digits,
    digitBits,
    wideBits,
    bases: evaluation.bases,
    ...ring.constants,
    exponents: [
      ...Array.from({ length: steps }, (_, k) => stepExponent(n, k)),
      ...Array.from({ length: 2 ** LAST_LEVELS }, (_, c) => lastExponent(n, c)),
    ],
    responses: evaluation.responses,
  };
}

/** Evaluation keys that are ready to be used: about 81 MB at 128 dimensions. */
export class Evaluator {
  /** What the keys are for; they themselves are kept as they are used, and not twice. */
  readonly #head: KeysHead;
  readonly #expansion: Expansion;
  readonly #prepared: PreparedKeys;
  readonly #devices = new Map<number, Uint32Array>();

  constructor(keys: EvaluationKeys, expansion: Expansion = new Expansion(expansionShape(keys.parameters, keys.width))) {
    const { parameters, keyId, generation, width, packing } = keys;
    const devices = new Set(keys.devices.keys());
    this.#head = { parameters, keyId, generation, width, devices, packing: { length: packing.length } };
    this.#expansion = expansion;
    this.#prepared = prepare(keys);
    for (const [number, pair] of keys.devices) this.#devices.set(number, switchingKeys(keys, pair));
  }

  get bytes(): number {
    const { steps, last, masks, packing } = this.#prepared;
    const parts = [steps, last, masks, packing, ...this.#devices.values()];
    return parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
  }

  /**
   * The rows of a query. Those of a device whose keys are not among these need its piece, which is
   * not kept: it takes a millisecond or two to prepare.
   */
  expand(query: OpenQuery, threads = 1, device?: EvaluationPiece): OpenRows {
    const { parameters: set, keyId, generation, width: keyWidth } = this.#head;
    if (device && (device.parameters.id !== set.id || device.keyId.some((byte, i) => byte !== keyId[i])))
      throw new HersError('KEY_MISMATCH', 'the evaluation keys of this device belong to another key');
    if (device && (device.generation !== generation || device.width !== keyWidth))
      throw new HersError('KEY_MISMATCH', 'the evaluation keys of this device are of another generation');
    checkExpandable(device ? { ...this.#head, devices: new Set([device.first]) } : this.#head, query);
    const first = device ? switchingKeys(this.#head, deviceKeysIn(device)) : this.#devices.get(query.device)!;
    const { parameters, width } = query;
    const { masks } = levelsOf(parameters, width);
    const words = (width + masks * parameters.digits) * parameters.n;
    const out = { bodies: new Uint32Array(words), masks: new Uint32Array(words) };
    const [body, mask] = queryPair(query).map(([q, p1]) => {
      const both = new Uint32Array(2 * parameters.n);
      both.set(q);
      both.set(p1, parameters.n);
      return both;
    });
    this.#expansion.expand(this.#prepared, first, body, mask, out, threads);
    return out;
  }

  pack(query: OpenQuery, results: readonly OpenResult[]): PackedResponse {
    checkResults(this.#head, results);
    const { n } = query.parameters;
    const count = results.length;
    const bodies = new Uint32Array(count * n);
    const masks = new Uint32Array(count * n);
    results.forEach(({ body, mask }, u) => {
      bodies.set(body, u * n);
      masks.set(mask, u * n);
    });
    const out = new Uint32Array((count + 1) * n);
    this.#expansion.pack(this.#prepared, count, bodies, masks, out);
    const ring = ringOf(query.parameters);
    const packed = (at: number, bits: number) => {
      const bytes = new Uint8Array(ring.packedBytes(bits));
      ring.polys[0].residues.set(out.subarray(at * n, (at + 1) * n));
      ring.switchAndPack(bytes, ring.polys[0], bits);
      return bytes;
    };
    return {
      ...packedHead(this.#head, query, results),
      mask: packed(count, query.bits1),
      bodies: results.map((_, v) => packed(v, query.bits0)),
    };
  }
}

/** [key][digit][half][prime][n] in Montgomery form. */
function switchingKeys({ parameters }: Pick<EvaluationKeys, 'parameters'>, list: readonly SwitchingKey[]): Uint32Array {
  const { n } = parameters;
  const { primes } = EvaluationRing.of(parameters);
  const out = new Uint32Array(list.length * 12 * n);
  let at = 0;
  for (const key of list)
    for (const pair of key)
      for (const half of pair)
        half.forEach((words, l) => {
          toMontgomery(out.subarray(at, at + n), words, primes[l]);
          at += n;
        });
  return out;
}

function prepare(keys: EvaluationKeys): PreparedKeys {
  const { parameters, width } = keys;
  const { n } = parameters;
  const { responses, bases } = parameters.evaluation;
  const { primes } = EvaluationRing.of(parameters);
  const shape = expansionShape(parameters, width);
  const { nodes, masks } = levelsOf(parameters, width);
  const leaves = 2 ** LAST_LEVELS;
  const groups = nodes / masks;
  const lines = new Uint32Array(groups * 3 * n * leaves * bases.length * 4);
  const words = new Uint32Array(n);
  keys.masks.forEach((list, j) => {
    // Leaf c of group g has secret g + c·groups.
    const [group, leaf] = [j % groups, Math.floor(j / groups)];
    list.forEach((pairs, base) => {
      pairs.forEach((pair, product) => {
        pair.forEach((half, which) => {
          half.forEach((residues, l) => {
            toMontgomery(words, residues, primes[l]);
            putMaskKey(lines, shape, { group, l, leaf, base, place: 2 * product + which }, words);
          });
        });
      });
    });
  });
  const packing = new Uint32Array(responses * (responses + 1) * 2 * n);
  keys.packing.forEach(({ bodies, mask }, u) => {
    [...bodies, mask].forEach((residues, o) => {
      [Q, P2].forEach((l, i) => {
        const at = ((u * (responses + 1) + o) * 2 + i) * n;
        toMontgomery(packing.subarray(at, at + n), residues[i], primes[l]);
      });
    });
  });
  return { steps: switchingKeys(keys, keys.steps.flat()), last: switchingKeys(keys, keys.last), masks: lines, packing };
}
