// Numbers for people.

export const count = (value: number) => value.toLocaleString('en-GB');

/** `1 record`, `2 records`. */
export const counted = (value: number, noun: string) => `${count(value)} ${noun}${value === 1 ? '' : 's'}`;

const UNITS = ['bytes', 'kB', 'MB', 'GB', 'TB'];

/** Decimal units, as disks and networks are sold. */
export function size(bytes: number): string {
  let value = bytes;
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 || value >= 99.95 ? Math.round(value) : value.toFixed(value >= 9.995 ? 1 : 2)} ${UNITS[unit]}`;
}

export function duration(ms: number): string {
  if (ms < 1000) return `${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${seconds < 10 && !Number.isInteger(seconds) ? seconds.toFixed(1) : Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A score, without digits that are only noise. */
export const score = (value: number, { noisy = false } = {}) => String(Number(value.toPrecision(noisy ? 4 : 6)));
