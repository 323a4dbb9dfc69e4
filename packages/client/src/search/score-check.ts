// Whether records have the scores that were decrypted for them. Fetching the best records shows the
// store which they are. A store that could choose them could ask what ciphertexts decrypt to; so
// the first score that is not the record's own ends the fetching.
//
// Under `exact` a score is the record's own to the last integer. Under `compact` it carries noise,
// so each residual must be within seven standard deviations; and since a store could hide a smaller
// change in every one of them, they are also looked at together (README.md): the differences of
// neighbours, whose mean square for K pairs is almost never larger than `largestSpread(K)`, and the
// mean of all, which may hold the part of the noise that templates have in common.

import { noiselessScores, plainScores } from '@hers/scheme';
import { HersError } from '@hers/service';
import type { PlainRecord } from '../formats/records.ts';
import type { Space } from '../keys/space.ts';

/** Standard deviations within which a single score must agree. */
const AGREE_SIGMAS = 7;
/** Natural logarithm of how often all residuals together may be wrong by chance: 2^-64. */
const LOG_CHANCE = -64 * Math.LN2;
/**
 * Steps that a moved record's score may be off by: a network may round differently here than where
 * the record was indexed. It is no reason to read again: a store could cause that at will.
 */
const MOVED_STEPS = 8;

/**
 * What was decrypted for a record, in the space of its block. Pending records were compared here:
 * nothing was decrypted for them.
 */
export interface Scored {
  readonly handle: string;
  readonly space: Space;
  readonly slot?: number;
  readonly decrypted?: number;
}

const WRONG = 'a record does not have the score that was decrypted for it: the store altered something, or mixed it up';

/** A decrypted score that is not the record's. */
export class WrongScore extends HersError {
  constructor() {
    super('INTEGRITY', `${WRONG}. Nothing more is fetched because of a score`);
  }
}

interface Residual {
  readonly slot: number;
  /** In standard deviations. */
  readonly value: number;
  /** The score without noise, in standard deviations; larger is better. */
  readonly score: number;
  /** The share of the variance that templates may have in common. */
  readonly common: number;
}

export class ScoreCheck {
  readonly probe: Float32Array;
  readonly #probes = new Map<Space, Promise<Float32Array>>();
  readonly #residuals = new Map<string, Residual>();

  constructor(probe: Float32Array) {
    this.probe = probe;
  }

  #probeIn(space: Space): Promise<Float32Array> {
    let probe = this.#probes.get(space);
    if (!probe) this.#probes.set(space, (probe = space.project(this.probe)));
    return probe;
  }

  /** WrongScore when this record cannot have that score. */
  async one({ handle, space, slot = 0, decrypted: score }: Scored, record: PlainRecord): Promise<void> {
    if (score === undefined) return;
    const { plan } = space;
    const { vector, isMoved } = await indexed(space, record);
    const probe = await this.#probeIn(space);
    const euclidean = plan.metric === 'euclidean';
    // Compared before the square root, where the noise is what the planner says it is. A distance
    // that noise made negative was cut off at zero.
    const decrypted = euclidean ? score * score : score;
    const wasCut = euclidean && score === 0;
    if (plan.profile === 'exact') {
      const [plain] = plainScores(plan, vector, probe);
      // Half an integer, and what single precision loses of a distance.
      const unit = plan.normBound * plan.queryNormBound;
      const loss = euclidean ? plain * 2 ** -22 : 0;
      const asIndexed = (0.5 / plan.steps ** 2) * unit + loss;
      const room = isMoved ? (MOVED_STEPS / plan.steps) * unit * (euclidean ? 2 : 1) : asIndexed;
      if (!(Math.abs(decrypted - plain) <= room)) throw new WrongScore();
      return;
    }
    const [plain] = noiselessScores(plan, vector, probe);
    const sigma = plan.noise.score;
    const residual = {
      slot,
      value: (decrypted - plain) / sigma,
      score: (euclidean ? -plain : plain) / sigma,
      common: (plan.noise.A / plan.noise.total) ** 2,
    };
    if (!(Math.abs(residual.value) <= AGREE_SIGMAS || (wasCut && residual.value >= 0))) throw new WrongScore();
    if (!wasCut) this.#residuals.set(handle, residual);
  }

  /** INTEGRITY when no single score is wrong, but noise hardly explains all of them together. */
  together(): void {
    if (!agree([...this.#residuals.values()]))
      throw new HersError('INTEGRITY', `${WRONG}, in many records by a little`);
  }
}

/**
 * Returns what the block holds of a record. A record of a later epoch was moved: it was sealed
 * again for another compressor meanwhile, and is projected here.
 */
async function indexed(space: Space, record: PlainRecord): Promise<{ vector: Float32Array; isMoved: boolean }> {
  const isMoved = space.sealsProjections && record.projection?.epoch !== space.epoch;
  if (space.sealsProjections && !isMoved) return { vector: record.projection!.values, isMoved };
  if (isMoved && record.epoch <= space.epoch)
    throw new HersError('INTEGRITY', 'a record is sealed without what was indexed of it');
  return { vector: await space.project(record.vector), isMoved };
}

function agree(residuals: readonly Residual[]): boolean {
  const count = residuals.length;
  if (count < 2) return true;
  // Templates that are alike share a part of the noise, which changes little from one slot to the
  // next: pairs of neighbours are free of it.
  const bySlot = residuals.toSorted((a, b) => a.slot - b.slot);
  const pairs = Math.floor(count / 2);
  let squares = 0;
  for (let i = 0; i < pairs; i++) squares += (bySlot[2 * i].value - bySlot[2 * i + 1].value) ** 2 / 2;
  if (squares > pairs * largestSpread(pairs)) return false;
  const mean = residuals.reduce((sum, { value }) => sum + value, 0) / count;
  // Among records that score alike those with the best noise come first, so their mean is not zero:
  // where scores fall off as exp(−s/t) above the worst of them, it is 1/t.
  const scores = residuals.map(({ score }) => score);
  const fallOff = Math.max(0, scores.reduce((sum, score) => sum + score, 0) / count - Math.min(...scores));
  const common = Math.max(...residuals.map((each) => each.common));
  const sigma = Math.sqrt(common + (1 - common) / count);
  return Math.abs(mean) <= Math.min(AGREE_SIGMAS, Math.sqrt(-2 * (LOG_CHANCE - Math.LN2)) * sigma + 1 / fallOff);
}

/**
 * The mean of `count` squares of independent residuals is larger than this with a probability of
 * 2^-64 at most (Chernoff's bound): x − 1 − ln x = −2·ln(2^-64)/count.
 */
export function largestSpread(count: number): number {
  const wanted = (-2 * LOG_CHANCE) / count;
  let [low, high] = [1, 2 * wanted + 4];
  for (let i = 0; i < 60; i++) {
    const x = (low + high) / 2;
    if (x - 1 - Math.log(x) < wanted) low = x;
    else high = x;
  }
  return high;
}
