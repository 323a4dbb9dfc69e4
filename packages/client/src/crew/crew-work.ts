// What a worker of a crew does with a task, wherever it runs.

import { QuerySecret } from '@hers/scheme/secret';
import { freeBytes, HersError } from '@hers/service';
import { encrypted, hashed, type KeyMaterial, keyFrom, OpenSecretsCache, rankResponses, sealerFrom } from './crew.ts';
import { unpackTasks } from './packed.ts';
import type { Answer, Task } from './workers.ts';

export interface Done {
  readonly answer: Answer;
  /** Memory that moves back instead of being copied. */
  readonly transfer: ArrayBuffer[];
}

/** Takes ownership of the seed, and overwrites it once the keys are derived. */
export function workFor(material: KeyMaterial): (task: Task) => Promise<Done> {
  const { key, sealing } = keysFrom(material);
  const open = new OpenSecretsCache(key);

  async function perform(task: Task): Promise<unknown> {
    if (task.kind === 'wipe') {
      open.wipe();
      key.wipe();
      (await sealing).wipe();
      return {};
    }
    if (task.kind === 'seal') return (await sealing).seal(task.batch);
    if (task.kind === 'encrypt') return hashed(encrypted(key, task.vectors, task.handle));
    const { secret: given, options } = task;
    const tasks = unpackTasks(task.packed);
    if (!('secret' in given)) return rankResponses(key, open.of(given, options.query), tasks, options);
    using secret = QuerySecret.from(key.plan, given);
    return rankResponses(key, secret, tasks, options);
  }

  return async (task) => {
    try {
      const value = await perform(task);
      // These came for the task alone.
      if (task.kind === 'seal') freeBytes(...Object.values(task.batch).filter(ArrayBuffer.isView));
      if (task.kind === 'encrypt') freeBytes(task.vectors);
      // What responses came in goes back, for others: memory of every search would be garbage here.
      const spare = task.kind === 'decrypt' ? task.packed.memory : undefined;
      return { answer: { value, spare }, transfer: spare ? [spare] : memoryOf(value) };
    } catch (error) {
      // Only the typed ones are meant for people; a worker's stack would help nobody.
      const { code, message } = error instanceof HersError ? error : { code: 'INTEGRITY', message: 'a worker failed' };
      return { answer: { code, message }, transfer: [] };
    }
  };
}

function keysFrom(material: KeyMaterial) {
  try {
    return { key: keyFrom(material), sealing: sealerFrom(material) };
  } finally {
    material.seed.fill(0);
  }
}

function memoryOf(value: unknown): ArrayBuffer[] {
  const arrays = value instanceof Uint8Array ? [value] : Object.values(value as object);
  return arrays.filter((array) => ArrayBuffer.isView(array)).map((array) => array.buffer as ArrayBuffer);
}
