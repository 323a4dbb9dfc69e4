// Opening a folder in this process: the one file of the client that knows the store.

import { realpath } from 'node:fs/promises';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Service } from '@hers/service';
import { openStore } from '@hers/store';

/**
 * `file:./gallery` is relative to the working directory, `file:///srv/gallery` is not. Its address
 * is where it really is.
 */
export async function openFolder(
  where: string,
  mode?: 'write' | 'read',
): Promise<{ readonly service: Service; readonly gallery: string }> {
  const folder = where.startsWith('file:///') ? fileURLToPath(where) : resolve(where.slice('file:'.length));
  const service = await openStore(folder, mode === undefined ? {} : { mode });
  return { service, gallery: `file:${await realpath(folder)}` };
}
