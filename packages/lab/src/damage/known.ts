// KNOWN: defects that are found and not repaired yet. This list has to be empty.

import type { Outcome } from './trial.ts';

export interface Known {
  readonly defect: string;
  is(failure: string, outcome: Outcome): boolean;
}

export const KNOWN: readonly Known[] = [];
