export { FAULT_POINTS, type FaultPoint } from './faults.ts';
export { FORMAT } from './layout.ts';
export { FolderStore, openStore, type StoreOptions } from './store.ts';
