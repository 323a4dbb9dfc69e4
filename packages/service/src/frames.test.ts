import assert from 'node:assert/strict';
import { it } from 'node:test';
import { HersError } from '@hers/scheme';
import fc from 'fast-check';
import { frame, unframe } from './frames.ts';

const collect = async (pieces: Uint8Array[], limit?: number) => Array.fromAsync(unframe(pieces, limit));
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
