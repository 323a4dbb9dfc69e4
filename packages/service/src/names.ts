// Names people give to collections. They appear in paths and URLs.

import { HersError } from '@hers/scheme';

/** The rule, as a regular expression. */
export const COLLECTION_NAME = '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$';
const pattern = new RegExp(COLLECTION_NAME);

export function isCollectionName(name: unknown): name is string {
  return typeof name === 'string' && pattern.test(name);
}

/** INVALID_ARGUMENT when no collection can have this name. */
export function checkCollectionName(name: unknown): asserts name is string {
  if (!isCollectionName(name))
    throw new HersError(
      'INVALID_ARGUMENT',
      'a collection name has 1 to 64 letters, digits, dots, dashes or underscores, and begins with a letter or digit',
    );
}
