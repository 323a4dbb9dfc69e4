// Filters: which records a search, a count, a list or a deletion is about. The grammar is that of
// Qdrant, where people know it from.
//
//   filter      { must, should, must_not }: each one condition, or a list of them. It holds if all
//               of `must` hold, at least one of `should`, where there is a `should`, and none of
//               `must_not`. {} holds for every record.
//   condition   a filter, or one of
//                 { field, match: v } or { field, match: { value: v } }     the value is v
//                 { field, match: { any: [v, …] } }                         is one of these
//                 { field, match: { except: [v, …] } }                      is none of these
//                 { field, match: { prefix: 'text' } }                      begins so
//                 { field, range: { gt, gte, lt, lte } }                    numbers and dates
//                 { field, empty: true } or { field, empty: false }
//                 { hasId: [id, …] }                                        the record's id
//
// One rule says what holds where values are missing, and for lists. A field of a record has no
// value (missing, null, an empty list), one, or several (a list). `match` and `range` hold if they
// hold for one of the values. `empty: true` holds if there is none. So
//
//   - no `match` and no `range` holds for a missing value, `except` neither: an unknown country is
//     not a country other than NL. There is no third truth value: `must_not` is plain negation, and
//     must_not { match: 'NL' } does hold for a missing country.
//   - on lists, `except` holds if some element is none of these, as in Qdrant. That none of the
//     elements is one of these is must_not { any }.
//
// Values are as in fields (fields/field.ts), and are compared as they are kept there: texts in
// normal form C, upper and lower case apart; dates by the instant, to the millisecond; a date alone
// is its midnight in UTC, so a day is a range.
//
// A value of another type than the field's is an error, and so is a field that the collection does
// not have, a property that is not named above, a list of no values, an empty `should`, and a
// condition that is an empty filter: each would pass all records or none without a word. An empty
// `must` or `must_not` at the top says nothing and is allowed.

import type { Fields, FieldType } from '../fields/field.ts';

/** What a condition compares a field of this type with. */
type Operand<T extends FieldType> = T extends 'number' ? number : T extends 'boolean' ? boolean : string;

type Match<T extends FieldType> =
  | Operand<T>
  | { readonly value: Operand<T> }
  | { readonly any: readonly Operand<T>[] }
  | { readonly except: readonly Operand<T>[] }
  | (T extends 'keyword' | 'keyword[]' ? { readonly prefix: string } : never);

/** Bounds; at least one. */
export interface Bounds<V> {
  readonly gt?: V;
  readonly gte?: V;
  readonly lt?: V;
  readonly lte?: V;
}

/** A condition on a field of this name and type. */
type On<Name extends string, T extends FieldType> =
  | { readonly field: Name; readonly match: Match<T> }
  | (T extends 'number' | 'date' ? { readonly field: Name; readonly range: Bounds<Operand<T>> } : never)
  | { readonly field: Name; readonly empty: boolean };

/** A condition on a field of these, or on the id. */
type Simple<F extends Fields> =
  | { readonly [Name in keyof F & string]: On<Name, F[Name]> }[keyof F & string]
  | { readonly hasId: readonly string[] };

/** Filters of these conditions, nested. */
export interface FilterOf<C> {
  /** All of these hold. */
  readonly must?: C | FilterOf<C> | readonly (C | FilterOf<C>)[];
  /** At least one of these holds. */
  readonly should?: C | FilterOf<C> | readonly (C | FilterOf<C>)[];
  /** None of these holds. */
  readonly must_not?: C | FilterOf<C> | readonly (C | FilterOf<C>)[];
}

/**
 * Which records are meant: see the rules on top of this file, and docs/filters.md.
 * `Filter<typeof fields>` knows the names and types of the fields.
 */
export type Filter<F extends Fields = Fields> = FilterOf<Simple<F>>;

/** What a filter asks of a record. */
export type Condition<F extends Fields = Fields> = Simple<F> | Filter<F>;

/** The conditions of a clause, which may be one alone. */
export function conditionsOf(clause: Condition | readonly Condition[] | undefined): readonly Condition[] {
  if (clause === undefined) return [];
  return Array.isArray(clause) ? clause : [clause as Condition];
}
