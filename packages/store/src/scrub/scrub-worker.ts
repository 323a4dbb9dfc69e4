// A thread of scrub-crew.ts.

import { parentPort } from 'node:worker_threads';
import { failureOf } from '../base/storage-errors.ts';
import type { Answer } from './scrub-crew.ts';
import { runTask, Scratch, type Task } from './scrub-task.ts';

const scratch = new Scratch();

parentPort?.on('message', async (task: Task) => {
  try {
    const done = await runTask(task, scratch);
    const moved = done.entries ? [done.entries.records.buffer, done.entries.lists.buffer] : [];
    parentPort?.postMessage({ done } satisfies Answer, moved);
  } catch (error) {
    parentPort?.postMessage({ failed: failureOf(error) } satisfies Answer);
  }
});
