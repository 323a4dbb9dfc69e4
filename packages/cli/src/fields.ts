// Fields and filters as they are written in a shell, and values of fields as they are shown.

import {
  type Collection,
  checkFields,
  type Fields,
  type FieldValue,
  type Filter,
  HersError,
  parseFilter,
} from '@hers/client';
import { usageError } from './exit.ts';
import { counted } from './output.ts';

/** Between the keywords of a list, in a cell. */
export const LIST_SEPARATOR = '|';

/** Names separated by commas. */
export function namesIn(text: string): string[] {
  return text.split(',').map((name) => name.trim());
}

/** `country:keyword`, or several of them separated by commas, beside those that came before. */
export function fieldsIn(text: string, before: Fields = {}): Fields {
  const fields = { ...before };
  for (const part of namesIn(text)) {
    const [name, type, ...more] = part.split(':');
    if (!name || !type || more.length > 0)
      throw usageError(
        `a field is a name and a type, such as country:keyword, and not ${JSON.stringify(part)}`,
        'the types are keyword, number, date, boolean and keyword[]',
      );
    if (Object.hasOwn(fields, name))
      throw usageError(`the field ${JSON.stringify(name)} is given twice`, 'leave one of them out');
    Object.assign(fields, checkFields({ [name]: type }));
  }
  return fields;
}

/** `country (keyword), age (number)`. */
export function fieldsText(fields: Fields): string {
  return Object.entries(fields)
    .map(([name, type]) => `${name} (${type})`)
    .join(', ');
}

/** What there is to say about fields that were added, and that not all blocks have yet. */
export function unfinishedText(unfinished: Readonly<Record<string, number>>): string {
  const left = Object.entries(unfinished).map(([name, blocks]) => `${name} (${counted(blocks, 'block')} without it)`);
  return `Not finished: ${left.join(', ')}. Filters by it are refused until the same \`hers fields add\`, or \`hers optimize\`, has run to its end.`;
}

/** A value in a cell; nothing where there is none. */
export function cellOf(value: FieldValue | undefined): string {
  if (value === undefined) return '';
  return typeof value === 'object' ? value.join(LIST_SEPARATOR) : String(value);
}

/** For --partitions, where nothing is scanned for it. */
export const PARTITIONS: readonly [string, string, (text: string) => string[]] = [
  '--partitions <names>',
  'only records of these partitions, separated by commas',
  namesIn,
];

/** For --filter, wherever it can be given. */
export const FILTER = [
  '--filter <condition>',
  "only records that pass, such as 'country = NL and age >= 18', or a filter as JSON; the store does not learn that there is one (docs/filters.md)",
] as const;

/** The filter in a text, if there is one, as an option of the SDK. */
export async function filterIn(
  collection: Collection,
  text: string | undefined,
): Promise<{ readonly filter?: Filter }> {
  if (text === undefined) return {};
  // The name of a field does not begin with a brace.
  if (text.trimStart().startsWith('{')) return { filter: jsonFilter(text) };
  const fields = await collection.fields();
  try {
    return { filter: parseFilter(text, fields) };
  } catch (error) {
    if (!(error instanceof HersError)) throw error;
    // A sentence, and the place in lines of their own.
    const [message = '', ...place] = error.message.split('\n');
    throw Object.assign(usageError(message, undefined, error.code), { place });
  }
}

function jsonFilter(text: string): Filter {
  try {
    return JSON.parse(text);
  } catch {
    throw usageError('--filter begins with a brace, and is not JSON', "write it as 'country = NL', or correct it");
  }
}
