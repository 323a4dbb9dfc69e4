// Chooses between native code and WebAssembly: native where there is some for this machine and it
// passes a self-test, or what the variable HERS_RING asks for.

import { askedFor, openAddon, warn } from '#native-ring';
import { type Native, variantsOf } from './native.ts';
import { passesSelfTest } from './self-test.ts';

const CHOICES = ['auto', 'native', 'wasm'];

interface Choice {
  readonly native: Native | null;
  /** For people: what computes, and why. */
  readonly reason: string;
}

let made: Choice | undefined;

function choice(): Choice {
  made ??= choose(askedFor());
  return made;
}

/** The native code to use, if any. */
export function chosenNative(): Native | null {
  return choice().native;
}

/** Runs a function with other code, for comparisons. */
export function withNative<T>(native: Native | null, run: () => T): T {
  const before = choice();
  made = { native, reason: 'for comparison' };
  try {
    return run();
  } finally {
    made = before;
  }
}

/**
 * For people: what computes in the ring.
 *
 * @example ringCode() // 'native (avx512)'
 */
export function ringCode(): string {
  const { native, reason } = choice();
  return native ? `native (${native.isa})` : `WebAssembly (${reason})`;
}

function choose(asked: string | undefined): Choice {
  const wanted = asked === undefined || asked === '' ? 'auto' : asked;
  if (!CHOICES.includes(wanted))
    throw new Error(`HERS_RING is ${JSON.stringify(wanted)}; it can be ${CHOICES.join(', ')}`);
  if (wanted === 'wasm') return { native: null, reason: 'HERS_RING asks for it' };
  const found = find();
  if (found.native === null && wanted === 'native')
    throw new Error(`HERS_RING asks for native code: ${found.reason}. Take it back, or repair this.`);
  return found;
}

function find(): Choice {
  try {
    const addon = openAddon();
    if (!addon) return { native: null, reason: 'there is no addon for this platform' };
    const [native] = variantsOf(addon);
    if (!native) return { native: null, reason: 'there is no native code for this processor' };
    if (passesSelfTest(native)) return { native, reason: '' };
    warn(`the native ring failed its self-test with ${native.isa}, so WebAssembly computes`);
    return { native: null, reason: `native code for ${native.isa} failed its self-test` };
  } catch (error) {
    return { native: null, reason: `the addon cannot be loaded: ${(error as Error).message}` };
  }
}
