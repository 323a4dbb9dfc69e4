// One worker of a crew: makes its own key from the material it was given, and works until it is ended.

import { parentPort, workerData } from 'node:worker_threads';
import { encryptBlock } from '@hers/scheme/secret';
import { HersError } from '@hers/service';
import type { Answer, Task } from './crew.node.ts';
import { type KeyMaterial, keyFrom, rankResponses, secretFrom } from './crew.ts';

const key = keyFrom(workerData as KeyMaterial);

function perform(task: Task): unknown {
  if (task.kind === 'encrypt') return encryptBlock(key, task.vectors, { first: task.first });
  using secret = secretFrom(key.plan, task.secret);
  return rankResponses(secret, task.tasks, task.options);
}

parentPort!.on('message', (task: Task) => {
  let answer: Answer;
  try {
    answer = { value: perform(task) };
  } catch (error) {
    // Only the typed ones are meant for people; a worker's stack would help nobody.
    const { code, message } =
      error instanceof HersError ? error : { code: 'INTEGRITY', message: 'a worker thread failed' };
    answer = { code, message };
  }
  const transfer = 'value' in answer && answer.value instanceof Uint8Array ? [answer.value.buffer as ArrayBuffer] : [];
  parentPort!.postMessage(answer, transfer);
});
