// Worker threads. They never keep the process alive.

import { availableParallelism } from 'node:os';
import { Worker as Thread } from 'node:worker_threads';
import { HersError } from '@hers/service';
import type { KeyMaterial } from './crew.ts';
import { RankedTogether } from './together.ts';
import { type Answer, memoryOf, type WorkerSource, Workers } from './workers.ts';

/** Nothing where one thread is all there is. */
export async function startWorkers(
  material: KeyMaterial,
  threads: number = availableParallelism(),
): Promise<Workers | undefined> {
  return threads > 1 ? new Workers(threadsFor(material), threads, new RankedTogether(material)) : undefined;
}

function threadsFor(material: KeyMaterial): WorkerSource {
  return {
    start(answered, failed) {
      // A copy that moves: the message it is sent in holds none, and the thread overwrites it.
      const seed = new Uint8Array(material.seed);
      const thread = new Thread(new URL('./crew-worker.node.ts', import.meta.url), {
        workerData: { ...material, seed },
        transferList: [seed.buffer],
      });
      let isEnding = false;
      thread.unref();
      thread.on('message', (answer: Answer) => answered(answer));
      thread.on('error', failed);
      thread.on('exit', () => failed(new HersError('CLOSED', 'a worker thread ended unexpectedly')));
      return {
        begin(task) {
          thread.ref();
          thread.postMessage(task, memoryOf(task));
        },
        // Whoever waits for its end needs it to keep the process alive.
        rest() {
          if (!isEnding) thread.unref();
        },
        async end() {
          isEnding = true;
          thread.ref();
          await thread.terminate();
        },
      };
    },
    close() {},
  };
}
