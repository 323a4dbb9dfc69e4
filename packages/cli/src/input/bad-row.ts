// A row that cannot be used. Readers pass it on instead of ending, so that whoever reads can
// choose: to stop there, or to count it and go on.

import { HersError } from '@hers/client';

export class BadRow {
  /** Counted from 0, with all others. */
  readonly number: number;
  readonly where: string;
  readonly error: HersError;

  constructor(number: number, where: string, error: HersError) {
    this.number = number;
    this.where = where;
    this.error = error;
  }
}

/** What `read` makes of a row, or what is wrong with the row. */
export function attempt<T>(number: number, where: string, read: () => T): T | BadRow {
  try {
    return read();
  } catch (error) {
    if (error instanceof HersError) return new BadRow(number, where, error);
    throw error;
  }
}

/** For those who stop at the first. */
export async function* untilBad<T>(rows: AsyncIterable<T | BadRow>): AsyncGenerator<T> {
  for await (const row of rows) {
    if (row instanceof BadRow) throw row.error;
    yield row;
  }
}
