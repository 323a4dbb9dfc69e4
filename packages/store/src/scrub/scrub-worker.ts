// A thread of scrub-crew.ts.

import { serveThread } from '../base/thread.ts';
import { runTask, Scratch, type Task } from './scrub-task.ts';

const scratch = new Scratch();

serveThread(async (task: Task) => {
  const done = await runTask(task, scratch);
  return { done, transfer: done.entries && [done.entries.records.buffer, done.entries.lists.buffer] };
});
