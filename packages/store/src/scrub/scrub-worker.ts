// A thread of scrub-crew.ts.

import { parentPort } from 'node:worker_threads';
import { HersError } from '@hers/service';
import type { Answer } from './scrub-crew.ts';
import { runTask, Scratch, type Task } from './scrub-task.ts';

const scratch = new Scratch();

parentPort?.on('message', async (task: Task) => {
  try {
    const done = await runTask(task, scratch);
    const moved = done.entries ? [done.entries.records.buffer, done.entries.lists.buffer] : [];
    parentPort?.postMessage({ done } satisfies Answer, moved);
  } catch (error) {
    const { message, code } = error as { message: string; code?: unknown };
    parentPort?.postMessage({ failed: { message, code, ours: error instanceof HersError } } satisfies Answer);
  }
});
