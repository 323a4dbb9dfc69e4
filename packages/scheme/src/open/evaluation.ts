// Evaluation keys: what a server needs to expand queries and to pack responses. Public to the store
// (README.md §9), in messages of a few megabytes, each with masks from a seed of its own.

import { HersError } from '../errors.ts';
import { CHECKSUM_BYTES, EVALUATION_MASK, FIELD_BYTES, HEAD_BYTES } from '../layout.ts';
import { LAST_LEVELS, levelsOf, type OpenSet, openSetById } from '../parameters.ts';
import { finishMessage, openMessage, SEED_BYTES, startMessage } from '../wire.ts';
import { EvaluationRing, P2, type Pair, putResidues, Q, type Residues, residuesBytes, takeResidues } from './ring.ts';

/**
 * A key that switches to another secret: a pair for the digit modulo q and one for that modulo p1.
 */
export type SwitchingKey = readonly [Pair, Pair];

/** What a piece of the keys holds. The order is that of the wire. */
const PARTS = ['chain', 'device', 'packing', 'masks'] as const;
export type Part = (typeof PARTS)[number];

/** Gallery secrets whose keys are in one piece. */
export const SECRETS_A_PIECE = 16;

/** A message of evaluation keys: bodies; the masks follow from the seed. */
export interface EvaluationPiece {
  readonly parameters: OpenSet;
  readonly keyId: Uint8Array;
  readonly generation: number;
  readonly width: number;
  readonly part: Part;
  /** Of `device`: its number. Of `masks`: the first gallery secret. Else zero. */
  readonly first: number;
  readonly seed: Uint8Array;
  /** In NTT form, in the order of `samplesOf`. */
  readonly bodies: readonly Residues[];
}

/** How many masks a piece has, the bodies for each, and the primes of both. */
export interface Samples {
  readonly masks: number;
  readonly bodies: number;
  readonly primes: readonly number[];
}

const ALL = [0, 1, 2];

/** `chain` has the pairs of keys of steps 1 and on, then the keys of the last levels. */
export function samplesOf(parameters: OpenSet, width: number, part: Part, first: number): Samples {
  const { steps, secrets } = levelsOf(parameters, width);
  const { bases, responses } = parameters.evaluation;
  if (part === 'chain') return { masks: 2 * (2 * (steps - 1) + 2 ** LAST_LEVELS), bodies: 1, primes: ALL };
  if (part === 'device') return { masks: 4, bodies: 1, primes: ALL };
  if (part === 'packing') return { masks: responses, bodies: responses, primes: [Q, P2] };
  const count = Math.min(SECRETS_A_PIECE, secrets - first);
  return { masks: count * bases.length * 2, bodies: 1, primes: ALL };
}

/** The primes of the bodies of a piece, and the bytes of a body. */
function bodyOf({ primes: places }: Samples, { primes: all, n }: EvaluationRing) {
  const primes = places.map((l) => all[l]);
  return { primes, bytes: residuesBytes(primes, n) };
}

/** Bytes of all pieces, with those of one device. */
export function evaluationBytes(parameters: OpenSet, width: number): number {
  const ring = EvaluationRing.of(parameters);
  const frame = HEAD_BYTES + FIELD_BYTES['key for evaluation'] + CHECKSUM_BYTES;
  const piece = (part: Part, first = 0) => {
    const samples = samplesOf(parameters, width, part, first);
    return frame + samples.masks * samples.bodies * bodyOf(samples, ring).bytes;
  };
  let bytes = piece('chain') + piece('device') + piece('packing');
  const { secrets } = levelsOf(parameters, width);
  for (let first = 0; first < secrets; first += SECRETS_A_PIECE) bytes += piece('masks', first);
  return bytes;
}

/** Mask number `index` of a piece, in NTT form. */
export function evaluationMask(
  { parameters, seed, width, part, first }: Omit<EvaluationPiece, 'bodies'>,
  index: number,
): Residues {
  const { primes } = samplesOf(parameters, width, part, first);
  return EvaluationRing.of(parameters).uniform(primes, seed, EVALUATION_MASK, 3 * index);
}

const AT = { generation: 32, width: 36, part: 40, first: 44, seed: 48, body: 48 + SEED_BYTES };

export function encodeEvaluation(piece: EvaluationPiece): Uint8Array {
  const { parameters, keyId, width, part, first } = piece;
  const { primes, bytes: each } = bodyOf(samplesOf(parameters, width, part, first), EvaluationRing.of(parameters));
  const head = { kind: 'key for evaluation', parameterSetId: parameters.id, keyId } as const;
  const draft = startMessage(head, piece.bodies.length * each);
  const { bytes, view } = draft;
  view.setUint32(AT.generation, piece.generation, true);
  view.setUint32(AT.width, width, true);
  view.setUint8(AT.part, PARTS.indexOf(part));
  view.setUint32(AT.first, first, true);
  bytes.set(piece.seed, AT.seed);
  let at = AT.body;
  for (const body of piece.bodies) at = putResidues(bytes, at, body, primes);
  return finishMessage(draft);
}

export function decodeEvaluation(input: Uint8Array): EvaluationPiece {
  const { bytes, parameterSetId, keyId, view, bodyAt, bodyBytes } = openMessage(input, 'key for evaluation');
  const parameters = openSetById(parameterSetId);
  const contradiction = () => new HersError('MALFORMED', 'the fields of these evaluation keys contradict each other');
  const generation = view.getUint32(AT.generation, true);
  const width = view.getUint32(AT.width, true);
  const part = PARTS[view.getUint8(AT.part)];
  const first = view.getUint32(AT.first, true);
  const reserved = view.getUint8(AT.part + 1) | view.getUint16(AT.part + 2, true);
  if (part === undefined || reserved !== 0 || width < 1 || width > parameters.n) throw contradiction();
  const { secrets } = levelsOf(parameters, width);
  const isPlace =
    part === 'device' || (part === 'masks' ? first % SECRETS_A_PIECE === 0 && first < secrets : first === 0);
  if (!isPlace) throw contradiction();
  const samples = samplesOf(parameters, width, part, first);
  const length = samples.masks * samples.bodies;
  const { primes, bytes: each } = bodyOf(samples, EvaluationRing.of(parameters));
  if (bodyBytes !== length * each) throw contradiction();
  const bodies = Array.from({ length }, (_, i) =>
    takeResidues(bytes, bodyAt + i * each, parameters.n, primes, 'evaluation keys'),
  );
  const seed = bytes.slice(AT.seed, AT.seed + SEED_BYTES);
  return { parameters, keyId, generation, width, part, first, seed, bodies };
}

/** Which key and device a piece with the keys of one device is for. Its bodies are not read. */
export function peekDeviceEvaluation(bytes: Uint8Array): { readonly keyId: Uint8Array; readonly device: number } {
  const { keyId, view } = openMessage(bytes, 'key for evaluation');
  if (PARTS[view.getUint8(AT.part)] !== 'device')
    throw new HersError('MALFORMED', 'these are no evaluation keys of a device');
  return { keyId, device: view.getUint32(AT.first, true) };
}

const pairsOf = (piece: EvaluationPiece): Pair[] =>
  piece.bodies.map((body, index) => [body, evaluationMask(piece, index)] as const);

/** The keys of step 0 in the piece of a device. */
export function deviceKeysIn(piece: EvaluationPiece): readonly [SwitchingKey, SwitchingKey] {
  if (piece.part !== 'device') throw new HersError('KEY_MISMATCH', 'these are no evaluation keys of a device');
  const pairs = pairsOf(piece);
  return [
    [pairs[0], pairs[1]],
    [pairs[2], pairs[3]],
  ];
}

/** Keys of one mask row's base for one gallery secret: of κ·s_j, and of κ·s_j·s. */
export type MaskKey = readonly [Pair, Pair];

/** Key u of packing: one mask, and a body for every place in a response, modulo q and p2. */
export interface PackingKey {
  readonly mask: Residues;
  readonly bodies: readonly Residues[];
}

/** All evaluation keys of a collection, masks included, in NTT form. */
export interface EvaluationKeys {
  readonly parameters: OpenSet;
  readonly keyId: Uint8Array;
  readonly generation: number;
  readonly width: number;
  /** Keys of step 0, for each secret that queries are encrypted under, by its number. */
  readonly devices: ReadonlyMap<number, readonly [SwitchingKey, SwitchingKey]>;
  /** Those of steps 1 and on: plain, and after the automorphism. */
  readonly steps: readonly (readonly [SwitchingKey, SwitchingKey])[];
  /** Those of the last levels. */
  readonly last: readonly SwitchingKey[];
  /** By gallery secret, and by base. */
  readonly masks: readonly (readonly MaskKey[])[];
  readonly packing: readonly PackingKey[];
}

/** What keys are for, without them. */
export interface KeysHead extends Pick<EvaluationKeys, 'parameters' | 'keyId' | 'generation' | 'width'> {
  /** Whether there are keys for the queries of a device. */
  readonly devices: { has(device: number): boolean };
  readonly packing: { readonly length: number };
}

/** Puts the pieces of one collection together. Says what is missing. */
export function evaluationKeys(pieces: readonly EvaluationPiece[]): EvaluationKeys {
  const missing = (what: string) =>
    new HersError('KEY_MISMATCH', `evaluation keys are incomplete: ${what} is missing; upload them again`);
  const [head] = pieces;
  if (!head) throw missing('everything');
  const { parameters, keyId, generation, width } = head;
  for (const piece of pieces)
    if (
      piece.parameters.id !== parameters.id ||
      piece.generation !== generation ||
      piece.width !== width ||
      piece.keyId.some((byte, i) => byte !== keyId[i])
    )
      throw new HersError('KEY_MISMATCH', 'these evaluation keys belong to different keys; upload them again');
  const switching = (list: readonly Pair[], k: number): SwitchingKey => [list[2 * k], list[2 * k + 1]];
  const of = (part: Part) => pieces.filter((piece) => piece.part === part);
  const { steps, secrets } = levelsOf(parameters, width);

  const [chain] = of('chain');
  if (!chain) throw missing('the chain');
  const chained = pairsOf(chain);
  const devices = new Map<number, readonly [SwitchingKey, SwitchingKey]>();
  for (const piece of of('device')) devices.set(piece.first, deviceKeysIn(piece));
  const [packing] = of('packing');
  if (!packing) throw missing('what packs responses');
  const { bases, responses } = parameters.evaluation;
  const masks: MaskKey[][] = [];
  for (const piece of of('masks').sort((a, b) => a.first - b.first)) {
    if (piece.first !== masks.length) throw missing(`secret ${masks.length}`);
    const list = pairsOf(piece);
    for (let at = 0; at < list.length; at += 2 * bases.length)
      masks.push(bases.map((_, k) => [list[at + 2 * k], list[at + 2 * k + 1]] as const));
  }
  if (masks.length !== secrets) throw missing(`secret ${masks.length}`);
  return {
    parameters,
    keyId,
    generation,
    width,
    devices,
    steps: Array.from({ length: steps - 1 }, (_, k) => [switching(chained, 2 * k), switching(chained, 2 * k + 1)]),
    last: Array.from({ length: 2 ** LAST_LEVELS }, (_, c) => switching(chained, 2 * (steps - 1) + c)),
    masks,
    packing: Array.from({ length: responses }, (_, u) => ({
      mask: evaluationMask(packing, u),
      bodies: packing.bodies.slice(u * responses, (u + 1) * responses),
    })),
  };
}
