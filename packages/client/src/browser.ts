// The SDK as one module for pages, and what its workers run.

export { serveCrew } from './crew/serve-crew.web.ts';
export * from './index.ts';
