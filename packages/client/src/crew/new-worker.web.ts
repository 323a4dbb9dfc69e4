// A worker from the sources, or from what a bundler makes of them: bundlers look for this very
// expression.

export function newWorker(): Worker {
  return new Worker(new URL('./crew-worker.web.ts', import.meta.url), { type: 'module', name: 'hers' });
}
