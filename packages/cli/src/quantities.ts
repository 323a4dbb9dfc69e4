// Numbers for people.

export const count = (value: number): string => value.toLocaleString('en-GB');

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

/** Each unit is rounded before the next is chosen: 59.7 seconds are a minute, not 60 s. */
export function duration(ms: number): string {
  if (ms < 999.5) return `${ms < 9.95 ? ms.toFixed(1) : Math.round(ms)} ms`;
  const tenths = Math.round(ms / 100) / 10;
  if (tenths < 10) return `${Number.isInteger(ms / 1000) ? ms / 1000 : tenths.toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.round(ms / 60_000);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** A score, without digits that are only noise. */
export const score = (value: number, { noisy = false }: { readonly noisy?: boolean } = {}): string =>
  String(Number(value.toPrecision(noisy ? 4 : 6)));
