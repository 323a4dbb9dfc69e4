// The mean of measurements.

export function mean(values: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) sum += values[i];
  return sum / values.length;
}

/**
 * Every second vector of each class to train on, the others to test; a class of one vector is left
 * out.
 */
export function halves(labels: ArrayLike<number>): { train: number[]; test: number[] } {
  const sizes = new Map<number, number>();
  for (let i = 0; i < labels.length; i++) sizes.set(labels[i], (sizes.get(labels[i]) ?? 0) + 1);
  const seen = new Map<number, number>();
  const [train, test]: number[][] = [[], []];
  for (let i = 0; i < labels.length; i++) {
    if (sizes.get(labels[i])! < 2) continue;
    const number = seen.get(labels[i]) ?? 0;
    seen.set(labels[i], number + 1);
    (number % 2 === 0 ? train : test).push(i);
  }
  return { train, test };
}
