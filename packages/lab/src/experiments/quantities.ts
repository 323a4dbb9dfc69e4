// Numbers as people read them.

import type { Source } from './experiment.ts';

/** Whole numbers, such as published ones, in full; measurements to three digits, more would be noise. */
function significant(value: number): string {
  return value.toLocaleString('en-GB', Number.isInteger(value) ? {} : { maximumSignificantDigits: 3 });
}

/** @example seconds(0.0204) // '20.4 ms' */
export function seconds(value: number): string {
  if (value >= 1 || value === 0) return `${significant(value)} s`;
  if (value >= 1e-3) return `${significant(value * 1e3)} ms`;
  return `${significant(value * 1e6)} µs`;
}

const UNITS = ['B', 'KB', 'MB', 'GB', 'TB', 'PB'];

/** Decimal units, as the paper's. */
export function bytes(value: number): string {
  const power = Math.min(UNITS.length - 1, value < 1 ? 0 : Math.floor(Math.log10(value) / 3 + 1e-12));
  return `${significant(value / 1000 ** power)} ${UNITS[power]}`;
}

/** @example templates(10_000_000) // '10 million' */
export function templates(value: number): string {
  return value >= 1e6 && value % 1e5 === 0 ? `${significant(value / 1e6)} million` : value.toLocaleString('en-GB');
}

export function whole(value: number): string {
  return value.toLocaleString('en-GB');
}

/** @example signed(-0.0012) // '−0.0012' */
export function signed(difference: number): string {
  return `${difference < 0 ? '−' : '+'}${Math.abs(difference).toFixed(4)}`;
}

/** How much faster, or smaller; what is slower is a fraction. */
export function times(value: number): string {
  return value >= 1 ? `${significant(value)} ×` : `1/${significant(1 / value)} ×`;
}

/** A figure in a table: what was not run as it stands carries a mark that the table's caption explains. */
export function marked(text: string, source: Source): string {
  return source === 'extrapolated' ? `≈ ${text} *` : text;
}
