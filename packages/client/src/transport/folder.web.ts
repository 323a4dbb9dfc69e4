import { HersError, type Service } from '@hers/service';

/** Always INVALID_ARGUMENT: a page has no folders. */
export async function openFolder(
  _where: string,
  _mode?: 'write' | 'read',
): Promise<{ readonly service: Service; readonly gallery: string }> {
  throw new HersError('INVALID_ARGUMENT', 'a page cannot open a folder; connect to a server: https://<server>');
}
