// A process that does nothing but serve.

import { setFlagsFromString } from 'node:v8';
import { returnFreedMemory } from '@hers/store';

/**
 * Keeps a process small: what was freed goes back to the system, and the engine's space for young
 * objects stays as it is, where it would grow to a hundred megabytes under load and stay so. For
 * the whole process, so `hers serve` calls it, and `startServer` does not.
 */
export function keepProcessSmall(): void {
  returnFreedMemory();
  setFlagsFromString('--semi-space-growth-factor=1');
}
