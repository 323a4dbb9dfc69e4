import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import fc from 'fast-check';
import { WasmMemory } from './wasm-memory.ts';

describe('the shared memory', () => {
  it('hands out ranges that do not overlap, and joins what comes back', () => {
    const orders = fc.array(fc.record({ bytes: fc.integer({ min: 1, max: 200_000 }), give: fc.nat(20) }));
    fc.assert(
      fc.property(orders, (list) => {
        const memory = new WasmMemory(2 ** 22);
        memory.reserve(1000);
        const held: { at: number; end: number }[] = [];
        for (const { bytes, give } of list) {
          const at = memory.take(bytes);
          if (at !== undefined) {
            assert.ok(at >= 1000 && at + bytes <= memory.bytes && memory.bytes <= 2 ** 22);
            assert.ok(held.every((other) => at + bytes <= other.at || at >= other.end));
            held.push({ at, end: at + bytes });
          }
          const [back] = held.splice(give, 1);
          if (back) memory.give(back.at);
        }
        for (const { at } of held) memory.give(at);
        assert.notEqual(memory.take(2 ** 22 - 65536), undefined);
      }),
      { numRuns: 50 },
    );
  });

  it('says when there is no room, and takes nothing back twice', () => {
    const memory = new WasmMemory(2 ** 20);
    memory.reserve(0);
    const at = memory.take(2 ** 19)!;
    assert.equal(memory.take(2 ** 20), undefined);
    memory.give(at);
    assert.throws(() => memory.give(at), RangeError);
    assert.notEqual(memory.take(2 ** 20), undefined);
  });
});
