// A store whose every write is seen, before it happens and after.

export { openWatched } from '../src/store.ts';
