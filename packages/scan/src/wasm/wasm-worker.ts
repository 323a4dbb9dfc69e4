// One thread of the WebAssembly kernel: runs the stages it is sent, one after the other.

import { parentPort, workerData } from 'node:worker_threads';
import { Counters } from './wasm-counters.ts';
import type { FromThread, Stage, StageSegment, ThreadData, ToThread } from './wasm-stage.ts';
import { Damaged, Thread } from './wasm-thread.ts';

const data = workerData as ThreadData;
const port = parentPort!;
const post = (message: FromThread, transfer: ArrayBuffer[] = []): void => port.postMessage(message, transfer);
const thread = new Thread(data);
const segments = new Map<number, StageSegment>();

function go(stage: Stage): void {
  const { id } = stage;
  const counters = new Counters(data.control, stage.slot);
  try {
    if (stage.kind === 'prepare') thread.prepare(stage, counters);
    else {
      thread.scan(stage, segments.get(stage.segment)!, counters, (block, bytes) => {
        post({ kind: 'results', id, block, bytes }, [bytes.buffer]);
      });
    }
  } catch (error) {
    counters.stop();
    if (error instanceof Damaged) post({ kind: 'damaged', id, part: error.part });
    else post({ kind: 'failed', id, message: (error as Error).message });
  }
  post({ kind: 'left', id });
}

port.on('message', (message: ToThread) => {
  if (message.kind === 'load') segments.set(message.segment.id, message.segment);
  else if (message.kind === 'unload') segments.delete(message.segment);
  else go(message);
});
post({ kind: 'ready' });
