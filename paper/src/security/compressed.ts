// Whether compression protects what was compressed. The paper holds it possible that "compact
// feature vectors may be harder to reconstruct useful information from than the original full
// length representations". Two attackers try: one holds the compressed probe itself, as a stolen
// key gives it away; the other sees its scores against an encrypted gallery and knows some probes.
// Both know the compressor and what faces look like, and have learned to undo it.

import { plainScores, plan, roundVectors } from '@hers/scheme';
import { eachScoreRow, rankOfMate, rowsAt } from '@hers/vectors/accuracy';
import { cosine, decompressorOf, fromKnownProbes } from '@hers/vectors/inversion';
import type { Part } from '../data/datasets.ts';
import { mean } from '../metrics/statistics.ts';
import { EncryptedBlock } from './encrypted-search.ts';
import { type Campaign, meanAndError, scoreError, turned, vectorAt } from './score-attacks.ts';

export interface CompressedAttack {
  /** Probes whose scores are known; undefined where the compressed probe itself is. */
  readonly known: number | undefined;
  /** Of the compressed probe and what the attacker makes of its scores. */
  readonly compressed: number;
  /** Of the probe before it was compressed and what the attacker makes of that. */
  readonly cosine: number;
  readonly error: number;
  /** Share of the probes whose person the reconstruction finds first, at full dimension. */
  readonly identified: number;
}

/** Templates of a gallery, for each dimension. */
const TEMPLATES = 4;
/** Known probes, for each dimension. */
const KNOWN = [1 / 2, 1, 3 / 2];

/**
 * Both attacks on the probes of a campaign, after a compressor. Scores are those under `exact`,
 * which are the scores of rounded vectors to the last bit, so they are computed in the clear; one
 * search of each gallery is encrypted, to see that it is so.
 */
export function attackCompressed(
  { held, training, groups, strangers }: Campaign,
  compressed: { readonly held: Part; readonly training: Part },
): CompressedAttack[] {
  const { dimension } = compressed.held;
  const lift = decompressorOf(training, compressed.training);
  const knowns = [undefined, ...KNOWN.map((share) => Math.round(share * dimension))];
  const asked = Math.max(...knowns.map((known) => known ?? 0));
  const chosen = plan({ dimension, profile: 'exact' });
  const variance = scoreError(chosen) ** 2;
  const outcomes = groups.map((places, group) => {
    const templates = turned(strangers, Math.min(TEMPLATES * dimension, strangers.length), group);
    const gallery = rowsAt(compressed.held.vectors, dimension, templates);
    const search = (probe: Float32Array) => plainScores(chosen, gallery, probe);
    checkEncrypted(gallery, vectorAt(compressed.held, places[0]), search, 1 / chosen.steps ** 2);
    const count = training.labels.length;
    const own = rowsAt(
      compressed.training.vectors,
      dimension,
      Array.from({ length: asked }, (_, i) => (Math.floor((i * count) / asked) + group) % count),
    );
    const rows = Array.from({ length: asked }, (_, i) => search(own.subarray(i * dimension, (i + 1) * dimension)));
    // As they are compared, which anybody can compute.
    const compared = Float64Array.from(roundVectors(chosen, own, 'query'), (x) => x / chosen.steps);
    const attacks = knowns.map((known) =>
      known === undefined
        ? undefined
        : fromKnownProbes(compared.subarray(0, known * dimension), dimension, rows.slice(0, known), variance),
    );
    const cases = knowns.map(() => ({ compressed: [] as number[], cosines: [] as number[], found: 0 }));
    for (const place of places) {
      const [probe, short] = [vectorAt(held, place), vectorAt(compressed.held, place)];
      const scores = search(short);
      const lifted = new Float32Array(knowns.length * held.dimension);
      for (const [i, attack] of attacks.entries()) {
        const found = unit(attack ? attack(scores) : short);
        const reconstruction = lift(found);
        cases[i].compressed.push(cosine(found, short));
        cases[i].cosines.push(cosine(reconstruction, probe));
        lifted.set(reconstruction, i * held.dimension);
      }
      eachScoreRow(lifted, held.vectors, held.dimension, (i, row) => {
        if (rankOfMate(row, held.labels, held.labels[place], place) === 1) cases[i].found++;
      });
    }
    return cases;
  });
  const probes = groups.reduce((sum, places) => sum + places.length, 0);
  return knowns.map((known, i) => {
    const [value, error] = meanAndError(outcomes.map((cases) => mean(cases[i].cosines)));
    return {
      known,
      compressed: mean(outcomes.map((cases) => mean(cases[i].compressed))),
      cosine: value,
      error,
      identified: outcomes.reduce((sum, cases) => sum + cases[i].found, 0) / probes,
    };
  });
}

/** One search that is encrypted: its scores are those in the clear. */
function checkEncrypted(
  gallery: Float32Array,
  probe: Float32Array,
  search: (probe: Float32Array) => Float64Array,
  step: number,
): void {
  const block = new EncryptedBlock(gallery, probe.length, 'exact');
  const encrypted = block.search(probe);
  block.wipe();
  const clear = search(probe);
  // Decrypted scores are whole steps, in single precision.
  if (encrypted.some((score, j) => Math.abs(score - clear[j]) > step / 2))
    throw new Error('scores under exact are not those of rounded vectors');
}

/** The length that compressed vectors have: the attacker knows that, too. */
function unit(vector: ArrayLike<number>): Float64Array {
  const length = Math.hypot(...Array.from(vector));
  return Float64Array.from(vector, (x) => (length === 0 ? 0 : x / length));
}
