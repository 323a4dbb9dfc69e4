// The thread of assembler.ts.

import { serveThread } from '../base/thread.ts';
import { Disk } from '../files/disk.ts';
import { type AssemblerRequest, assembleSegment } from './assembler.ts';

serveThread(async ({ folder, path, blocks }: AssemblerRequest, signal) => ({
  done: await assembleSegment(new Disk(folder), path, blocks, signal),
}));
