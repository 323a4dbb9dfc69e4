// Responses on their way to a worker. A message that copies hundreds of small arrays costs more
// than decrypting them: so what belongs to one message is laid into one piece of memory, which
// moves.

import type { Codes } from '../fields/column.ts';
import type { DecryptTask } from './crew.ts';

/** Where an array lies, and how many bytes an element has. */
type Place = readonly [at: number, length: number, width: number];

interface PackedTask extends Omit<DecryptTask, 'response' | 'slots' | 'groups' | 'sums'> {
  readonly places: readonly (Place | undefined)[];
}

export interface PackedTasks {
  readonly memory: ArrayBuffer;
  readonly tasks: readonly PackedTask[];
}

/** Arrays of any type begin at a multiple of this. */
const ALIGNMENT = 8;

const aligned = (bytes: number) => Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;

export function packTasks(tasks: readonly DecryptTask[]): PackedTasks {
  const arraysOf = ({ response, slots, groups, sums }: DecryptTask) => [response, slots, groups, sums];
  let total = 0;
  for (const task of tasks) for (const array of arraysOf(task)) total += aligned(array?.byteLength ?? 0);
  const bytes = new Uint8Array(total);
  let at = 0;
  const pack = (array: Codes | undefined): Place | undefined => {
    if (!array) return undefined;
    const place: Place = [at, array.length, array.BYTES_PER_ELEMENT];
    bytes.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), at);
    at += aligned(array.byteLength);
    return place;
  };
  const packed = tasks.map((task) => {
    const { block, canaries, dead } = task;
    return { block, canaries, dead, places: arraysOf(task).map(pack) };
  });
  return { memory: bytes.buffer, tasks: packed };
}

/** The same tasks, as views of the memory. */
export function unpackTasks({ memory, tasks }: PackedTasks): DecryptTask[] {
  const unpack = (place: Place | undefined): Codes | undefined => {
    if (!place) return undefined;
    const [at, length, width] = place;
    if (width === 1) return new Uint8Array(memory, at, length);
    return width === 2 ? new Uint16Array(memory, at, length) : new Uint32Array(memory, at, length);
  };
  return tasks.map(({ places, ...rest }) => {
    const [response, slots, groups, sums] = places.map(unpack);
    return { ...rest, response, slots, groups, sums } as DecryptTask;
  });
}
