// The thread of assembler.ts.

import { parentPort } from 'node:worker_threads';
import { failureOf } from '../base/storage-errors.ts';
import { Disk } from '../files/disk.ts';
import { type AssemblerAnswer, type AssemblerRequest, assembleSegment } from './assembler.ts';

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
    answer({ job, failed: failureOf(error) });
  } finally {
    running.delete(job);
  }
});
