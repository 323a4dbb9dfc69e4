import { HersError, type Service } from '@hers/service';

/** Always INVALID_ARGUMENT: a page has no folders, and the package `@hers/client` no store. */
export async function openFolder(
  _where: string,
  _mode?: 'write' | 'read',
): Promise<{ readonly service: Service; readonly gallery: string }> {
  throw new HersError(
    'INVALID_ARGUMENT',
    'this client cannot open a folder, which takes the package hers in Node; connect to a server: https://<server>',
  );
}
