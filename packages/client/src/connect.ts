// The way in: a folder or a server.

import { HersError, refuseUnknown } from '@hers/service';
import { checkKey, Database } from './database.ts';
import { CONNECT_OPTIONS, type ConnectOptions } from './database-options.ts';
import { checkPartitions } from './search/partitions.ts';
import { HttpService } from './transport/http.ts';

/** How the address of a server is remembered: however it was written. */
export function galleryOf(where: string): string {
  const { origin, pathname } = new URL(where);
  return origin + pathname.replace(/\/+$/, '');
}

/**
 * Opens a database.
 *
 * @example const db = await connect('file:./gallery', { key: MasterSeed.generate() });
 * @example const db = await connect('https://gallery.example:7443', { key, token });
 */
export async function connect(where: string, options: ConnectOptions): Promise<Database> {
  refuseUnknown(options, CONNECT_OPTIONS, 'connect');
  // Before anything is opened, which would stay open.
  checkKey(options.key);
  checkPartitions(options.partitions);
  if (typeof where !== 'string')
    throw new HersError('INVALID_ARGUMENT', 'connect to file:<folder> or https://<server>');
  if (where.startsWith('file:')) {
    const { service, gallery } = await (await import('#folder')).openFolder(where, options.mode);
    return new Database(service, { gallery, ...options });
  }
  if (/^https?:/.test(where)) {
    const {
      key: _key,
      versions: _versions,
      cache: _cache,
      partitions: _partitions,
      gallery: _gallery,
      threads: _threads,
      mode: _mode,
      ...http
    } = options;
    const service = new HttpService(where, http);
    await service.hello();
    return new Database(service, { gallery: galleryOf(where), ...options });
  }
  throw new HersError(
    'INVALID_ARGUMENT',
    `${JSON.stringify(where)} is not a place this version can open; use file:<folder> or https://<server>`,
  );
}
