// Opening a folder in this process: the one file of the client that knows the store.

import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Service } from '@hers/service';
import { openStore } from '@hers/store';

/** `file:./gallery` is relative to the working directory, `file:///srv/gallery` is not. */
export function openFolder(where: string): Promise<Service> {
  return openStore(where.startsWith('file:///') ? fileURLToPath(where) : resolve(where.slice('file:'.length)));
}
