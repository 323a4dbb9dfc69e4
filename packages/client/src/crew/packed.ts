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

/** In new memory, or in some that is no longer needed, if it is large enough. */
export function packTasks(tasks: readonly DecryptTask[], spare?: ArrayBuffer): PackedTasks {
  const arraysOf = ({ response, slots, groups, sums }: DecryptTask) => [response, slots, groups, sums];
  // Several tasks may be about one packed response.
  const all = new Set(tasks.flatMap((task) => arraysOf(task).filter((array) => array !== undefined)));
  let total = 0;
  for (const array of all) total += aligned(array.byteLength);
  const bytes = new Uint8Array(spare && spare.byteLength >= total ? spare : new ArrayBuffer(total));
  const places = new Map<Codes, Place>();
  let at = 0;
  const pack = (array: Codes | undefined): Place | undefined => {
    if (!array) return undefined;
    const known = places.get(array);
    if (known) return known;
    const place: Place = [at, array.length, array.BYTES_PER_ELEMENT];
    places.set(array, place);
    bytes.set(new Uint8Array(array.buffer, array.byteOffset, array.byteLength), at);
    at += aligned(array.byteLength);
    return place;
  };
  const packed = tasks.map((task) => {
    const { place, block, canaries, dead } = task;
    return { ...(place === undefined ? {} : { place }), block, canaries, dead, places: arraysOf(task).map(pack) };
  });
  return { memory: bytes.buffer, tasks: packed };
}

/** The same tasks, as views of the memory. */
export function unpackTasks({ memory, tasks }: PackedTasks): DecryptTask[] {
  const known = new Map<number, Codes>();
  const unpack = (place: Place | undefined): Codes | undefined => {
    if (!place) return undefined;
    const [at, length, width] = place;
    const found = known.get(at);
    if (found && length > 0) return found;
    const array =
      width === 1
        ? new Uint8Array(memory, at, length)
        : width === 2
          ? new Uint16Array(memory, at, length)
          : new Uint32Array(memory, at, length);
    if (length > 0) known.set(at, array);
    return array;
  };
  return tasks.map(({ places, ...rest }) => {
    const [response, slots, groups, sums] = places.map(unpack);
    return { ...rest, response, slots, groups, sums } as DecryptTask;
  });
}
