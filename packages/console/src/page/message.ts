// What went wrong, for people.

import { HersError } from '@hers/client';

export function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  // An address stays as it is.
  const sentence = /^\w+:/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1);
  return `${sentence}${/[.!?]$/.test(sentence) ? '' : '.'}`;
}

export function isCode(error: unknown, code: HersError['code']): boolean {
  return error instanceof HersError && error.code === code;
}
