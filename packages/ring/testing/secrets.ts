// Loads secrets of blocks, for what decrypts these in tests; in browsers, too.

export { loadSecret } from '../src/rows.ts';
