// The mean of measurements.

export const mean = (values: readonly number[]): number => values.reduce((sum, x) => sum + x, 0) / values.length;
