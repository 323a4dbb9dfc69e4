import assert from 'node:assert/strict';
import { it } from 'node:test';
import { HersError } from '@hers/scheme';
import fc from 'fast-check';
import { frame, Grouped, unframe, unframeGroups } from './frames.ts';

/** Pieces that are gone when the next one is asked for. */
function* passing(pieces: readonly Uint8Array[]): Generator<Uint8Array> {
  for (const piece of pieces) {
    const passes = piece.slice();
    yield passes;
    passes.fill(0xee);
  }
}

/** All ways, which must agree; groups are copied at once, for they may be views of a piece. */
const collect = async (pieces: Uint8Array[], limit?: number) => {
  const copies = (group: readonly Uint8Array[]) => group.map((each) => new Uint8Array(each));
  const [one, ...others] = await Promise.allSettled([
    Array.fromAsync(unframe(pieces, limit)),
    Array.fromAsync(unframeGroups(pieces, limit), copies),
    Array.fromAsync(unframeGroups(passing(pieces), limit, undefined, true), copies),
  ]);
  for (const { status } of others) assert.equal(status, one.status);
  if (one.status === 'rejected') throw one.reason;
  for (const other of others) assert.deepEqual(other.status === 'fulfilled' && other.value.flat(), one.value);
  return one.value;
};
const malformed = (error: unknown) => error instanceof HersError && error.code === 'MALFORMED';

it('frames survive any cutting of the stream', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.uint8Array({ maxLength: 40 })),
      fc.array(fc.integer({ min: 1, max: 30 })),
      async (frames, cuts) => {
        const whole = Uint8Array.from(frames.flatMap((bytes) => [...frame(bytes)]));
        const pieces: Uint8Array[] = [];
        for (let at = 0, k = 0; at < whole.length; k++) {
          const length = cuts.length > 0 ? cuts[k % cuts.length] : whole.length;
          pieces.push(whole.subarray(at, at + length));
          at += length;
        }
        assert.deepEqual(await collect(pieces), frames);
      },
    ),
  );
});

it('a stream that is cut off, or claims too much, is refused', async () => {
  const whole = frame(new Uint8Array(10));
  for (let length = 1; length < whole.length; length++)
    await assert.rejects(collect([whole.subarray(0, length)]), malformed);
  await assert.rejects(collect([whole], 9), malformed);
  await assert.rejects(collect([new Uint8Array([255, 255, 255, 255])]), malformed);
});

it('nothing of a piece is kept: a stream may hand over the same memory again and again', async () => {
  const whole = Uint8Array.from(
    [1, 3000, 0, 70_000].flatMap((length) => [...frame(new Uint8Array(length).fill(length))]),
  );
  const pieces = function* () {
    const piece = new Uint8Array(1);
    for (const byte of whole) {
      piece[0] = byte;
      yield piece;
    }
  };
  const frames = await Array.fromAsync(unframe(pieces()));
  assert.deepEqual(
    frames.map((bytes) => [
      bytes.length,
      bytes.buffer.byteLength,
      bytes.every((byte) => byte === (bytes.length & 255)),
    ]),
    [1, 3000, 0, 70_000].map((length) => [length, length, true]),
  );
});

it('a length is not believed before the bytes have come', async () => {
  // Were the room made at once, sixty-four such streams would take 16 GiB.
  const claims = new Uint8Array(new Uint32Array([2 ** 28]).buffer);
  const before = process.memoryUsage().arrayBuffers;
  const streams = Array.from({ length: 64 }, () => {
    const frames = unframe(
      (async function* () {
        yield claims;
        await new Promise<void>((resolve) => setTimeout(resolve, 100));
      })(),
    );
    return assert.rejects(frames.next(), malformed);
  });
  await new Promise<void>((resolve) => setTimeout(resolve, 50));
  assert.ok(process.memoryUsage().arrayBuffers - before < 2 ** 27);
  await Promise.all(streams);
});

it('memory is counted for what is put together, and all of it given back', async () => {
  const whole = Uint8Array.from([10, 3_000_000, 20, 5].flatMap((length) => [...frame(new Uint8Array(length))]));
  const pieces = Array.from({ length: Math.ceil(whole.length / 70_000) }, (_, i) =>
    whole.subarray(70_000 * i, 70_000 * (i + 1)),
  );
  for (const way of [unframe, unframeGroups]) {
    let [held, most, frames] = [0, 0, 0];
    for await (const some of way(pieces, undefined, (bytes) => {
      held += bytes;
      most = Math.max(most, held);
    })) {
      for (const each of Array.isArray(some) ? some : [some]) {
        frames++;
        // Whoever takes it may still be copying it.
        if (each.length === 3_000_000) assert.ok(held >= each.length);
      }
    }
    assert.deepEqual([held, frames], [0, 4]);
    assert.ok(most >= 3_000_000);
  }
});

it('what comes in groups can be taken one by one', async () => {
  const grouped = new Grouped(async function* () {
    yield [1, 2];
    yield [];
    yield [3];
  });
  assert.deepEqual(await Array.fromAsync(grouped), [1, 2, 3]);
  assert.deepEqual(await Array.fromAsync(grouped.groups()), [[1, 2], [], [3]]);
});
