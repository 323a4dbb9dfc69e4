// All code that can compute in a ring on this machine, for comparisons.

import { type Native, variantsOf } from '../src/native.ts';
import { openAddon } from '../src/native-addon.node.ts';

export { withNative } from '../src/choose.ts';

export interface Code {
  readonly name: string;
  /** Null: WebAssembly. */
  readonly native: Native | null;
}

/** WebAssembly, and native code for every instruction set of this machine, best first. */
export function allCode(paths?: readonly string[]): readonly Code[] {
  const addon = openAddon(paths);
  const natives = addon ? variantsOf(addon) : [];
  return [{ name: 'wasm', native: null }, ...natives.map((native) => ({ name: native.isa, native }))];
}
