// Worker threads. They never keep the process alive.

import { availableParallelism } from 'node:os';
import { Worker as Thread } from 'node:worker_threads';
import { type CollectionKey, canRank, QuerySecret, rankTogether } from '@hers/scheme/secret';
import { HersError } from '@hers/service';
import { type Decryption, type DecryptTask, type KeyMaterial, keyFrom, type RankOptions } from './crew.ts';
import { type Candidate, floorOf } from './ranking.ts';
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

/**
 * Decrypts and ranks responses by native code on threads of its own, many in one call. A worker
 * would do the same work, but the messages to it and back take longer than that.
 */
export class RankedTogether {
  readonly #material: KeyMaterial;
  #key: CollectionKey | undefined;
  #isClosed = false;

  constructor(material: KeyMaterial) {
    this.#material = material;
  }

  /**
   * The same as `rankResponses`, of responses that lie in one piece of memory; or nothing, where
   * that has to be asked: for what native code does not do, and for the words of an error.
   */
  async rank(
    secret: Decryption,
    tasks: readonly DecryptTask[],
    { limit, order, threshold, query }: RankOptions,
  ): Promise<Candidate[] | undefined> {
    const memory = tasks[0]?.response.buffer;
    if (this.#isClosed || !(secret instanceof QuerySecret) || !(memory instanceof ArrayBuffer)) return undefined;
    if (tasks.some(({ groups, sums }) => groups || sums)) return undefined;
    this.#key ??= keyFrom(this.#material);
    if (!canRank(this.#key)) return undefined;
    const floor = floorOf(order === 'descending' ? 1 : -1, threshold);
    const best = await rankTogether(this.#key, secret, memory, tasks, { limit, floor, query });
    return best?.map(({ task, slot, score }) => ({ block: tasks[task].block, slot, score }));
  }

  close(): void {
    this.#isClosed = true;
    this.#key?.wipe();
    this.#key = undefined;
  }
}
