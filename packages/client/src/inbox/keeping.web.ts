// In pages there is no keeper: it would make every page that searches load a quarter more, and a
// keeper is a program that runs all the time.

import { HersError } from '@hers/service';
import type * as keeping from './keeping.ts';

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
