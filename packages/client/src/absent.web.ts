// What pages do not have, in the place of what Node has: folders, and a keeper. A keeper is a
// program that runs all the time, and would make every page that searches load a quarter more.

import { HersError, type Service } from '@hers/service';
import type * as keeping from './inbox/keeper.ts';

function absent(): never {
  throw new HersError('INVALID_ARGUMENT', 'a page cannot be a keeper, or look after devices; use @hers/client in Node');
}

// biome-ignore lint/correctness/useYield: there is nothing to give.
export const questions: typeof keeping.questions = async function* () {
  absent();
};
export const addDevice: typeof keeping.addDevice = async () => absent();
export const listDevices: typeof keeping.listDevices = async () => absent();
export const revokeDevice: typeof keeping.revokeDevice = async () => absent();

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
