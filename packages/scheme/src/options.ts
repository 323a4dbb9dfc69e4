// Unknown options are errors. Otherwise a misspelt option would be ignored without a word.

import { HersError } from './errors.ts';

/** The names of all options of a type: the compiler refuses a list that lacks or invents one. */
export type OptionNames<T> = { readonly [K in keyof Required<T>]: true };

/**
 * INVALID_ARGUMENT when `given` is no object, or has an option that is not in `known`. `what` has
 * the options: `a search`. `noun` is what the message calls an option, `Failure` the error's class.
 *
 * @example refuseUnknown<SearchOptions>(options, { limit: true, signal: true }, 'a search');
 */
export function refuseUnknown<T extends object>(
  given: T,
  known: OptionNames<T>,
  what: string,
  noun: 'option' | 'field' = 'option',
  Failure: new (code: 'INVALID_ARGUMENT', message: string) => Error = HersError,
): void {
  if (typeof given !== 'object' || given === null)
    throw new Failure('INVALID_ARGUMENT', `the ${noun}s of ${what} are an object`);
  for (const name of Object.keys(given)) {
    if (Object.hasOwn(known, name)) continue;
    const nearest = nearestTo(name, Object.keys(known));
    const hint = nearest === undefined ? `: it has ${Object.keys(known).join(', ')}` : `; did you mean ${nearest}?`;
    throw new Failure('INVALID_ARGUMENT', `${what} has no ${noun} ${JSON.stringify(name)}${hint}`);
  }
}

/** The known name that takes the fewest edits, if they are few beside its length. */
function nearestTo(name: string, known: readonly string[]): string | undefined {
  const near = known.map((each) => ({ each, edits: editsBetween(name.slice(0, 100), each) }));
  const [best] = near.sort((a, b) => a.edits - b.edits);
  return best && best.edits <= Math.max(1, best.each.length / 3) ? best.each : undefined;
}

/** Characters to insert, delete or replace (Levenshtein), in upper or lower case. */
function editsBetween(a: string, b: string): number {
  const to = [...b.toLowerCase()];
  // From the characters of `a` so far: to nothing, and to the first j + 1 of `b`.
  let toNothing = 0;
  let row = to.map((_, j) => j + 1);
  for (const character of a.toLowerCase()) {
    let diagonal = toNothing;
    let left = ++toNothing;
    row = row.map((above, j) => {
      left = Math.min(above + 1, left + 1, diagonal + (character === to[j] ? 0 : 1));
      diagonal = above;
      return left;
    });
  }
  return row.at(-1) ?? toNothing;
}
