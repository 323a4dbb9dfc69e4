// The way in: a folder or a server.

import { HersError, refuseUnknown } from '@hers/service';
import { checkKey, Database } from './database.ts';
import { CONNECT_OPTIONS, type ConnectOptions } from './database-options.ts';
import { checkPartitions } from './search/choice.ts';
import { HTTP_OPTIONS } from './transport/connection.ts';
import { HttpService } from './transport/http.ts';

/**
 * How the address of a server is remembered: however it was written, and in any order.
 *
 * @param where - The address of a server, or those of the nodes of a cluster.
 * @throws {TypeError} for what is no address.
 * @example
 * galleryOf('https://gallery.example:443/'); // 'https://gallery.example'
 */
export function galleryOf(where: string | readonly string[]): string {
  const one = (address: string) => {
    const { origin, pathname } = new URL(address);
    return origin + pathname.replace(/\/+$/, '');
  };
  return typeof where === 'string' ? one(where) : where.map(one).sort().join();
}

/**
 * Opens a database.
 *
 * @param where - `file:` and a folder, which takes the package `hers`; or the address of a server;
 *   or those of the nodes of a cluster, of which it uses whichever answers.
 * @param options - The key, and for a server a token.
 * @throws {HersError} INVALID_ARGUMENT: for another kind of address, a folder where the client is
 *   by itself, a wrong option or key, or a token that would be sent to another machine without TLS.
 * @throws {HersError} LOCKED: where another process writes to the folder.
 * @throws {HersError} UNSUPPORTED_VERSION, DAMAGED, STORAGE: for a folder in another format,
 *   altered, or that cannot be read.
 * @throws {HersError} UNAUTHENTICATED, UNAVAILABLE, OVERLOADED: where the server does not know the
 *   token, cannot be reached, or has too much to do.
 * @example
 * const db = await connect('file:./gallery', { key: MasterSeed.generate() });
 * @example
 * const db = await connect('https://gallery.example:7443', { key, token });
 * @example
 * const db = await connect(['https://n1.example:7443', 'https://n2.example:7443'], { key, token });
 */
export async function connect(where: string | readonly string[], options: ConnectOptions): Promise<Database> {
  refuseUnknown(options, CONNECT_OPTIONS, 'connect');
  // Before anything is opened, which would stay open.
  checkKey(options.key);
  checkPartitions(options.partitions);
  const isServer = (address: unknown) => typeof address === 'string' && /^https?:/.test(address);
  if (typeof where !== 'string' && !(Array.isArray(where) && where.length > 0 && where.every(isServer)))
    throw new HersError('INVALID_ARGUMENT', 'connect to file:<folder>, https://<server>, or a list of such servers');
  if (typeof where === 'string' && where.startsWith('file:')) {
    const { service, gallery } = await (await import('#folder')).openFolder(where, options.mode);
    return new Database(service, { gallery, ...options });
  }
  if (typeof where !== 'string' || isServer(where)) {
    const http = Object.fromEntries(Object.entries(options).filter(([name]) => Object.hasOwn(HTTP_OPTIONS, name)));
    const service = new HttpService(where, http);
    await service.hello();
    return new Database(service, { gallery: galleryOf(where), ...options });
  }
  throw new HersError(
    'INVALID_ARGUMENT',
    `${JSON.stringify(where)} is not a place this version can open; use file:<folder> or https://<server>`,
  );
}
