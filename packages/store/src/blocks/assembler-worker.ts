// The thread of assembler.ts.

import { parentPort } from 'node:worker_threads';
import { HersError } from '@hers/scheme';
import { Disk } from '../files/disk.ts';
import { assembleSegment } from './assemble.ts';
import type { AssemblerAnswer, AssemblerRequest } from './assembler.ts';

const running = new Map<number, AbortController>();

parentPort?.on('message', async (request: AssemblerRequest) => {
  if ('stop' in request) {
    running.get(request.stop)?.abort();
    return;
  }
  const { job, folder, path, blocks } = request;
  const stopping = new AbortController();
  running.set(job, stopping);
  const answer = (content: AssemblerAnswer) => parentPort?.postMessage(content);
  try {
    answer({ job, done: await assembleSegment(new Disk(folder), path, blocks, stopping.signal) });
  } catch (error) {
    const { message, code } = error as { message: string; code?: unknown };
    answer({ job, failed: { message, code, ours: error instanceof HersError } });
  } finally {
    running.delete(job);
  }
});
