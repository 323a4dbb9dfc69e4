// What `hers doctor` finds: one thing looked at, what it is like, and what to do about it.

export type Level = 'ok' | 'note' | 'problem';

export interface Finding {
  readonly check: string;
  /** `problem`: something does not work or is not safe. `note`: it works, and could be better. */
  readonly level: Level;
  readonly found: string;
  readonly advice?: string;
}

export const ok = (check: string, found: string): Finding => ({ check, level: 'ok', found });
export const note = (check: string, found: string, advice: string): Finding => ({
  check,
  level: 'note',
  found,
  advice,
});
export const problem = (check: string, found: string, advice: string): Finding => ({
  check,
  level: 'problem',
  found,
  advice,
});
