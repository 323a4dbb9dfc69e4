// A process that does nothing but serve.

import { setFlagsFromString } from 'node:v8';
import { returnFreedMemory } from '@hers/store';

/**
 * Keeps a process small: what was freed goes back to the system, and the engine's space for young
 * objects stays as it is, where it would grow to a hundred megabytes under load and stay so. The
 * heap may double between two collections: by itself the engine lets one of some ten megabytes grow
 * by a tenth, buffers included, so that every fifth query of a megabyte made it mark all of it,
 * which took half of the CPU of a small search. For the whole process, so `hers serve` calls it,
 * and `startServer` does not.
 */
export function keepProcessSmall(): void {
  returnFreedMemory();
  setFlagsFromString('--semi-space-growth-factor=1');
  setFlagsFromString('--heap-growing-percent=100');
}
