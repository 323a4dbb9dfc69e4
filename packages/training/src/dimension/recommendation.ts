// Which dimensions to try, from estimates of the intrinsic dimension. An estimate is what a perfect
// map would need. Linear maps and small networks need two to four times as much before they lose
// little (paper/results/faces.md), so the estimate comes first, then its double, then twice that.

/** Shorter than this share of what there is, a compressor is worth its error. */
const WORTHWHILE = 0.75;
const MULTIPLES = [1, 2, 4];

/**
 * The dimensions to try, least first: the largest estimate, rounded up to a multiple of 8, and its
 * multiples. Empty where that saves little.
 */
export function recommendedDimensions(estimates: readonly number[], dimension: number): number[] {
  if (estimates.length === 0) return [];
  const least = 8 * Math.ceil(Math.max(...estimates) / 8);
  return MULTIPLES.map((multiple) => multiple * least).filter((each) => each <= WORTHWHILE * dimension);
}
