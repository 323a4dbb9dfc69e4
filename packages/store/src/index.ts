export { returnFreedMemory } from '@hers/scan';
export { mendProofs } from './catalogue/catalogue-writer.ts';
export { FORMAT } from './files/layout.ts';
export type { InboxLimits } from './inbox.ts';
export type { Scrubbed, ScrubOptions } from './scrub/scrub.ts';
export { type FolderStore, openStore, type StoreOptions } from './store.ts';
