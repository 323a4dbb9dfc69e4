// The thread of assembler.ts.

import { parentPort } from 'node:worker_threads';
import { HersError } from '@hers/scheme';
import { assembleSegment } from './assemble.ts';
import type { Answer, Request } from './assembler.ts';
import { Disk } from './disk.ts';

const running = new Map<number, AbortController>();

parentPort?.on('message', async (request: Request) => {
  if ('stop' in request) {
    running.get(request.stop)?.abort();
    return;
  }
  const { job, folder, path, blocks } = request;
  const stopping = new AbortController();
  running.set(job, stopping);
  const answer = (content: Answer) => parentPort?.postMessage(content);
  try {
    answer({ job, done: await assembleSegment(new Disk(folder), path, blocks, stopping.signal) });
  } catch (error) {
    const { message, code } = error as { message: string; code?: unknown };
    answer({ job, failed: { message, code, ours: error instanceof HersError } });
  } finally {
    running.delete(job);
  }
});
