// What browsers have.

export { WebSealer as FastestSealer, webKeyedHash as fastestHash } from './sealing.ts';
