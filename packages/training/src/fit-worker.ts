// The thread that trains.

import { parentPort, workerData } from 'node:worker_threads';
import { CompressError } from '@hers/compress';
import { anyMethod, type Order, type Report } from './fit.ts';
import type { Context } from './methods/method.ts';

const { method, task, abort } = workerData as Order;

function say(report: Report): void {
  parentPort!.postMessage(report);
}

const context: Context = {
  progress: (progress) => say({ kind: 'progress', progress }),
  checkpoint: (bytes) => say({ kind: 'checkpoint', bytes }),
  stage: (bytes) => say({ kind: 'stage', bytes }),
  get aborted() {
    return Atomics.load(abort, 0) !== 0;
  },
  throwIfAborted() {
    if (context.aborted)
      throw new CompressError(
        'ABORTED',
        'Training was interrupted; a checkpoint, if there was one, takes it up again.',
      );
  },
};

try {
  say({ kind: 'done', bytes: await anyMethod[method].fit(task, context) });
} catch (error) {
  const { message, stack } = error as Error;
  say({ kind: 'error', code: error instanceof CompressError ? error.code : undefined, message, stack });
}
