// Numbers as people read them.

import type { Counts, Source } from './experiment.ts';

/** The only place that separates thousands: by a space, on pages and in plots. */
export function grouped(value: number, options: Intl.NumberFormatOptions = {}): string {
  return value.toLocaleString('en-GB', options).replaceAll(',', ' ');
}

/** Integers, such as published ones, in full; measurements to three digits, more would be noise. */
export function significant(value: number, digits = 3): string {
  return grouped(value, Number.isInteger(value) ? {} : { maximumSignificantDigits: digits });
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
  return value >= 1e6 && value % 1e5 === 0 ? `${significant(value / 1e6)} million` : grouped(value);
}

/**
 * @example counted({ vectors: 7010, labels: 2872 }, 'people') // '7 010 vectors of 2 872 people'
 */
export function counted({ vectors, labels }: Counts, what: string): string {
  return `${grouped(vectors)} vectors of ${grouped(labels)} ${what}`;
}

/** @example decimals(-0.0012, 4) // '−0.0012' */
export function decimals(value: number, digits: number): string {
  return value.toFixed(digits).replace('-', '−');
}

/** @example plusMinus(0.9671, 0.0039, 3) // '0.967 ± 0.004' */
export function plusMinus(value: number, error: number, digits: number): string {
  return `${decimals(value, digits)} ± ${decimals(error, digits)}`;
}

/** @example signed(0.0012) // '+0.0012' */
export function signed(difference: number, digits = 4): string {
  return `${difference < 0 ? '' : '+'}${decimals(difference, digits)}`;
}

/** @example percent(0.4371) // '43.7' */
export function percent(share: number, digits = 1): string {
  return (100 * share).toFixed(digits);
}

/** How much faster, or smaller; slower is a fraction. */
export function times(value: number): string {
  return value >= 1 ? `${significant(value)} ×` : `1/${significant(1 / value)} ×`;
}

/**
 * A figure in a table. If it was not measured whole, it carries a mark that the table's caption
 * explains.
 */
export function marked(text: string, source: Source): string {
  return source === 'extrapolated' ? `≈ ${text} *` : text;
}
