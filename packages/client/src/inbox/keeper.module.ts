// In the one-file module for pages there is no keeper: it would make every page that searches load
// a quarter more. Pages that are made with a bundler have it.

import { HersError } from '@hers/service';
import type * as keeping from './keeping.ts';

function absent(): never {
  throw new HersError(
    'INVALID_ARGUMENT',
    'the module for pages has no keeper; use @hers/client with a bundler, or in Node',
  );
}

// biome-ignore lint/correctness/useYield: there is nothing to give.
export const questions: typeof keeping.questions = async function* () {
  absent();
};
export const addDevice: typeof keeping.addDevice = async () => absent();
export const listDevices: typeof keeping.listDevices = async () => absent();
export const revokeDevice: typeof keeping.revokeDevice = async () => absent();
