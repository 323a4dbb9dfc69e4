import assert from 'node:assert/strict';
import { it } from 'node:test';
import fc from 'fast-check';
import type { DecryptTask } from './crew.ts';
import { packTasks, unpackTasks } from './crew.ts';

const bytes = fc.uint8Array({ maxLength: 40 });
/** A view of memory that holds other things as well. */
const view = bytes.map((array) => new Uint8Array([1, 2, 3, ...array]).subarray(3));
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });

const task: fc.Arbitrary<DecryptTask> = fc.record(
  {
    response: view,
    block: fc.nat(),
    canaries: fc.record({ id: fc.string(), slots: fc.nat() }, { noNullPrototype: true }),
    dead: fc.array(fc.nat()),
    slots: maybe(fc.uint32Array({ maxLength: 9 })),
    groups: maybe(fc.oneof(bytes, fc.uint16Array({ maxLength: 9 }), fc.uint32Array({ maxLength: 9 }))),
    sums: maybe(view),
  },
  { noNullPrototype: true },
);

it('tasks come out of a message as they went in, in memory that moved', () => {
  fc.assert(
    fc.property(fc.array(task, { maxLength: 6 }), (tasks) => {
      const packed = packTasks(tasks);
      const arrived = structuredClone(packed, { transfer: [packed.memory] });
      assert.deepEqual(unpackTasks(arrived), tasks);
      assert.equal(packed.memory.byteLength, 0);
      // In memory of another message, if it is large enough.
      const again = packTasks(tasks.slice(1), arrived.memory);
      assert.equal(again.memory, arrived.memory);
      assert.deepEqual(unpackTasks(again), tasks.slice(1));
      const small = new ArrayBuffer(1);
      const roomier = packTasks([...tasks, ...tasks], small);
      assert.deepEqual(unpackTasks(roomier), [...tasks, ...tasks]);
    }),
  );
});

it('a packed response is there once, however many tasks are about it', () => {
  const response = Uint8Array.from({ length: 1000 }, (_, i) => i & 255);
  const tasks: DecryptTask[] = [0, 1, 2].map((place) => ({
    ...{ response, place, block: 7 + place, canaries: { id: 'a', slots: 5 }, dead: [] },
    ...{ slots: undefined, groups: undefined, sums: undefined },
  }));
  const packed = packTasks(tasks);
  assert.equal(packed.memory.byteLength, response.length);
  const back = unpackTasks(packed);
  assert.deepEqual(back, tasks);
  assert.ok(back.every((each) => each.response === back[0].response));
});
