// The side of the worker: what it is told, and what it does.

import { type KeyMaterial, workFor } from './crew.ts';
import type { Task } from './workers.ts';

/** What goes to a worker: first the material, then tasks. */
export type Message = { readonly material: KeyMaterial } | { readonly task: Task };
/** What it says to the material. */
export const READY = 'ready';
export const UNABLE = 'unable';

/**
 * A worker reports ready only after it has encrypted one vector: its own content security policy
 * may forbid WebAssembly.
 */
async function tried(material: KeyMaterial): Promise<ReturnType<typeof workFor> | undefined> {
  const { dimension, normBound = 1 } = material.request;
  try {
    const work = workFor(material);
    const vectors = new Float32Array(dimension).fill(normBound / dimension);
    const { answer } = await work({ kind: 'encrypt', vectors });
    return 'value' in answer ? work : undefined;
  } catch {
    return undefined;
  }
}

/**
 * What a worker of a page does from its start to its end: the file that `new Worker` loads calls
 * it. It throws nothing; what fails is told to the page.
 */
export function serveCrew(): void {
  let work: ReturnType<typeof workFor> | undefined;
  const { postMessage } = globalThis as unknown as { postMessage(message: unknown, transfer: Transferable[]): void };
  globalThis.addEventListener('message', async ({ data }: MessageEvent<Message>) => {
    if ('material' in data) {
      work = await tried(data.material);
      postMessage(work ? READY : UNABLE, []);
    } else {
      const { answer, transfer } = await work!(data.task);
      postMessage(answer, transfer);
    }
  });
}
