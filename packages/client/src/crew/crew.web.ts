// Web Workers. They need no cross-origin isolation, for nothing is shared: what they work on is
// sent to them.
//
// A page may not be able to start any (its content security policy, a module that was copied
// without its worker, a server of another origin): then it does the work itself.

import { HersError } from '@hers/service';
import { newWorker } from '#new-worker';
import type { KeyMaterial } from './crew.ts';
import { type Message, READY, UNABLE } from './serve-crew.web.ts';
import { type Answer, memoryOf, type WorkerSource, Workers } from './workers.ts';

/** More would wait for memory. */
const MAX_WORKERS = 8;

/** Nothing where workers cannot be started, or one thread is all there is. */
export async function startWorkers(material: KeyMaterial, threads?: number): Promise<Workers | undefined> {
  const size = threads ?? Math.min(globalThis.navigator?.hardwareConcurrency ?? 1, MAX_WORKERS);
  if (size < 2 || typeof Worker !== 'function') return undefined;
  const first = await startWorker(material);
  return first && new Workers(workersFor(material, first), size);
}

/** `first` has been started already, to see whether it can be. */
function workersFor(material: KeyMaterial, first: Worker): WorkerSource {
  let spare: Worker | undefined = first;
  return {
    start(answered, failed) {
      const worker = spare ?? begin(material);
      spare = undefined;
      const ended = () => {
        worker.terminate();
        failed(new HersError('CLOSED', 'a worker ended unexpectedly'));
      };
      worker.onmessage = ({ data }: MessageEvent<Answer | typeof READY | typeof UNABLE>) => {
        if (data === UNABLE) ended();
        else if (data !== READY) answered(data);
      };
      worker.onerror = ended;
      return {
        begin: (task) => worker.postMessage({ task } satisfies Message, memoryOf(task)),
        rest() {},
        end: async () => worker.terminate(),
      };
    },
    close() {
      spare?.terminate();
      spare = undefined;
    },
  };
}

function begin(material: KeyMaterial): Worker {
  const worker = newWorker();
  // A copy that moves: the message it is sent in holds none, and the worker overwrites it.
  const seed = new Uint8Array(material.seed);
  worker.postMessage({ material: { ...material, seed } } satisfies Message, [seed.buffer]);
  return worker;
}

/** One worker that has said that it is ready; undefined when none can be. */
async function startWorker(material: KeyMaterial): Promise<Worker | undefined> {
  let worker: Worker;
  try {
    worker = begin(material);
  } catch {
    return undefined;
  }
  const ready = await new Promise<boolean>((resolve) => {
    worker.onmessage = ({ data }) => resolve(data === READY);
    worker.onerror = (event) => {
      event.preventDefault();
      resolve(false);
    };
  });
  if (ready) return worker;
  worker.terminate();
  return undefined;
}
