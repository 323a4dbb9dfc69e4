// Numbers, values and errors as people read them.

import { HersError } from '@hers/client';

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

export function size(bytes: number): string {
  let [value, unit] = [bytes, 0];
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  const digits = unit === 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return `${value.toFixed(digits)} ${UNITS[unit]}`;
}

export function count(value: number): string {
  return value.toLocaleString('en-US').replaceAll(',', ' ');
}

export function counted(value: number, noun: string): string {
  return `${count(value)} ${noun}${value === 1 ? '' : 's'}`;
}

export function duration(ms: number): string {
  if (ms < 9.95) return `${ms.toFixed(1)} ms`;
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(ms < 9950 ? 2 : 1)} s`;
}

/** Enough digits to tell scores from each other, and no more than their error allows. */
export function scoreText(score: number): string {
  return Math.abs(score) >= 100 ? score.toFixed(2) : score.toFixed(4);
}

export function valueText(value: unknown): string {
  if (value === undefined || value === null) return '';
  return Array.isArray(value) ? value.join(', ') : String(value);
}

/** Says what went wrong, as a sentence. */
export function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  // An address stays as it is.
  const sentence = /^\w+:/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1);
  return `${sentence}${/[.!?]$/.test(sentence) ? '' : '.'}`;
}

export function isCode(error: unknown, code: HersError['code']): boolean {
  return error instanceof HersError && error.code === code;
}
