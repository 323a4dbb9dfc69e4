// What browsers have.

import { hex, sha256 } from '../bytes.ts';

export { WebSealer as FastestSealer, webKeyedHash as fastestHash } from './sealing.ts';

/** SHA-256, hexadecimal. */
export async function hashText(bytes: Uint8Array): Promise<string> {
  return hex(await sha256(bytes));
}
