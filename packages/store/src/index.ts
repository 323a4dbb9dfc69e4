export { returnFreedMemory } from '@hers/scan';
export { mendProofs } from './catalogue/mend.ts';
export { FORMAT } from './files/layout.ts';
export type { InboxLimits } from './inbox-rules.ts';
export type { Scrubbed, ScrubOptions } from './scrub/scrub.ts';
export { type FolderStore, openStore, type StoreOptions } from './store.ts';
