export { returnFreedMemory } from '@hers/scan';
export { FAULT_POINTS, type FaultPoint } from './faults.ts';
export { FORMAT } from './layout.ts';
export { mendProofs } from './mend.ts';
export type { Scrubbed, ScrubOptions } from './scrub.ts';
export { FolderStore, openStore, type StoreOptions } from './store.ts';
