// One worker of a crew: makes its own key from the material it was given, and works until it is ended.

import { parentPort, workerData } from 'node:worker_threads';
import { encryptBlock } from '@hers/scheme/secret';
import { HersError } from '@hers/service';
import type { Answer, Task } from './crew.node.ts';
import { type KeyMaterial, keyFrom, rankResponses, sealerFrom, secretFrom } from './crew.ts';

const key = keyFrom(workerData as KeyMaterial);
const sealing = sealerFrom(workerData as KeyMaterial);

async function perform(task: Task): Promise<unknown> {
  if (task.kind === 'seal') return (await sealing)(task.batch);
  if (task.kind === 'encrypt') return encryptBlock(key, task.vectors, { first: task.first });
  using secret = secretFrom(key.plan, task.secret);
  return rankResponses(secret, task.tasks, task.options);
}

parentPort!.on('message', async (task: Task) => {
  let answer: Answer;
  try {
    answer = { value: await perform(task) };
  } catch (error) {
    // Only the typed ones are meant for people; a worker's stack would help nobody.
    const { code, message } =
      error instanceof HersError ? error : { code: 'INTEGRITY', message: 'a worker thread failed' };
    answer = { code, message };
  }
  parentPort!.postMessage(answer, 'value' in answer ? memoryOf(answer.value) : []);
});

/** What need not be copied on its way back. */
function memoryOf(value: unknown): ArrayBuffer[] {
  const arrays = value instanceof Uint8Array ? [value] : Object.values(value as object);
  return arrays.filter((array) => ArrayBuffer.isView(array)).map((array) => array.buffer as ArrayBuffer);
}
