// A worker of the module for pages, which lies beside its worker.

export function newWorker(): Worker {
  return new Worker(new URL('./hers-worker.js', import.meta.url), { type: 'module', name: 'hers' });
}
