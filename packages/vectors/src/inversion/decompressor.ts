// Undoing a compressor: a vector of full dimension from a compressed one, learned by ridge
// regression from vectors of other people.

import type { Labelled } from '../accuracy/identification.ts';
import { moments } from '../moments.ts';
import { type Example, learnedFrom } from './population.ts';

/** Parts of the training vectors, by people, on which the attacker tries what it has learned. */
const PARTS = 8;
/** Squares and products are learned from where there are no more of them than this. */
const MOST_FEATURES = 800;

/** Coordinates, and after them their squares and products where there are not too many. */
function features(compressed: ArrayLike<number>): Float64Array {
  const d = compressed.length;
  const pairs = (d * (d + 1)) / 2;
  if (d + pairs > MOST_FEATURES) return Float64Array.from(compressed);
  const out = new Float64Array(d + pairs);
  for (let a = 0, at = d; a < d; a++) {
    out[a] = compressed[a];
    for (let b = 0; b <= a; b++) out[at++] = compressed[a] * compressed[b];
  }
  return out;
}

/**
 * What makes a vector of full dimension of a compressed one, learned from those of other people.
 */
export function decompressorOf(training: Labelled, compressed: Labelled): (vector: ArrayLike<number>) => Float64Array {
  const { mean: centre } = moments(training.vectors, training.dimension);
  const people = [...new Set(Array.from(training.labels))].sort((a, b) => a - b);
  const rank = new Map(people.map((label, i) => [label, i]));
  const parts: Example[][] = Array.from({ length: PARTS }, () => []);
  for (let place = 0; place < training.labels.length; place++)
    parts[Math.floor((rank.get(training.labels[place])! * PARTS) / people.length)].push({
      seen: features(vectorAt(compressed, place)),
      probe: vectorAt(training, place),
    });
  const widths = new Set([compressed.dimension, parts[0][0].seen.length]);
  const guess = learnedFrom(parts, centre, [...widths]);
  return (vector) => guess(features(vector));
}

const vectorAt = ({ vectors, dimension }: Labelled, place: number) =>
  vectors.subarray(place * dimension, (place + 1) * dimension);
