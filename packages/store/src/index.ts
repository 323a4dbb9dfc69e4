export { FAULT_POINTS, type FaultPoint } from './faults.ts';
export { FORMAT } from './layout.ts';
export type { Scrubbed } from './scrub.ts';
export { FolderStore, openStore, type StoreOptions } from './store.ts';
