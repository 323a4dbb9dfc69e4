// What attackers sent, and the outcome.

import type { Answer } from './line.ts';

export interface Tally {
  sent: number;
  /** By status, and by status and code where the answer is an error. */
  readonly statuses: Record<string, number>;
  readonly codes: Record<string, number>;
  /**
   * Connections that were closed without an answer, connections that were not accepted, and
   * requests that were given up.
   */
  reset: number;
  refused: number;
  unanswered: number;
  /**
   * What must not happen: answers of 5xx, errors without a code, access without permission. The
   * first of each kind.
   */
  readonly faults: Record<string, number>;
}

export const emptyTally = (): Tally => ({
  sent: 0,
  statuses: {},
  codes: {},
  reset: 0,
  refused: 0,
  unanswered: 0,
  faults: {},
});

const count = (counts: Record<string, number>, key: string, by = 1) => {
  counts[key] = (counts[key] ?? 0) + by;
};

export function addTally(to: Tally, from: Tally): void {
  to.sent += from.sent;
  to.reset += from.reset;
  to.refused += from.refused;
  to.unanswered += from.unanswered;
  for (const key of ['statuses', 'codes', 'faults'] as const)
    for (const [name, number] of Object.entries(from[key])) count(to[key], name, number);
}

export function fault(tally: Tally, what: string): void {
  if (Object.keys(tally.faults).length < 50 || Object.hasOwn(tally.faults, what)) count(tally.faults, what);
}

/** The error that a body holds, if it is typed. */
function typed(answer: Answer): { code: string } | undefined {
  try {
    const { code, message, retryable, ...rest } = JSON.parse(answer.body.toString());
    const fits = typeof code === 'string' && typeof message === 'string' && typeof retryable === 'boolean';
    return fits && Object.keys(rest).length === 0 ? { code } : undefined;
  } catch {
    return undefined;
  }
}

/** Records an answer; `asked` says to what, in words that many requests share. */
export function answered(tally: Tally, answer: Answer, asked: string): void {
  const { status } = answer;
  count(tally.statuses, String(status));
  if (status >= 200 && status < 400) return;
  const error = answer.bytes > 0 ? typed(answer) : undefined;
  count(tally.codes, `${status} ${error?.code ?? (answer.bytes > 0 ? 'untyped' : 'no body')}`);
  if (status >= 500) fault(tally, `${status} ${error?.code ?? ''} to ${asked}`);
  if (status === 0) fault(tally, `an answer that is not HTTP to ${asked}`);
  if (answer.bytes > 0 && answer.isWhole && !error)
    fault(
      tally,
      `${status} with an untyped body to ${asked}: ${JSON.stringify(answer.body.toString('latin1', 0, 80))}`,
    );
}
