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
