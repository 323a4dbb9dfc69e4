// Unlinkability after Gomez-Barrero, Galbally, Rathgeb and Busch ("General framework to evaluate
// unlinkability in biometric template protection systems", 2018): how much the score of a linking
// function says about whether two protected templates are of one person.

/**
 * D_sys = Σ p(s | mated) · D(s), where D(s) = 2·LR / (1 + LR) − 1 for LR = p(s | mated) / p(s |
 * non-mated) above 1, and 0 below: 0 is fully unlinkable, 1 is fully linkable. Densities are
 * histograms over the range of all scores. Few scores make it larger than it is, so compare it with
 * that of shuffled ones.
 */
export function linkability(
  mated: ArrayLike<number>,
  others: ArrayLike<number>,
  bins: number = binsFor(mated, others),
): number {
  let [low, high] = [Infinity, -Infinity];
  for (const list of [mated, others])
    for (let i = 0; i < list.length; i++) [low, high] = [Math.min(low, list[i]), Math.max(high, list[i])];
  const share = (list: ArrayLike<number>) => {
    const counts = new Float64Array(bins);
    for (let i = 0; i < list.length; i++)
      counts[high === low ? 0 : Math.min(bins - 1, Math.floor(((list[i] - low) / (high - low)) * bins))] +=
        1 / list.length;
    return counts;
  };
  const [same, different] = [share(mated), share(others)];
  let sum = 0;
  for (let b = 0; b < bins; b++)
    if (same[b] > different[b]) sum += (same[b] * (same[b] - different[b])) / (same[b] + different[b]);
  return sum;
}

/** As many as there are scores in each, on average. */
function binsFor(mated: ArrayLike<number>, others: ArrayLike<number>): number {
  return Math.max(2, Math.round(Math.sqrt(Math.min(mated.length, others.length))));
}
