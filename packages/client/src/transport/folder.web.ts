import { HersError } from '@hers/service';

/** Always INVALID_ARGUMENT: a page has no folders. */
export async function openFolder(): Promise<never> {
  throw new HersError('INVALID_ARGUMENT', 'a page cannot open a folder; connect to a server: https://<server>');
}
