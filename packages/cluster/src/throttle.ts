// Pieces at a limited rate.

import { pause } from './pause.ts';

/** Passes pieces on, as many bytes a second as this at most, on average since the first. */
export async function* throttled(
  pieces: AsyncIterable<Uint8Array>,
  bytesPerSecond: number,
): AsyncGenerator<Uint8Array> {
  const began = performance.now();
  let bytes = 0;
  for await (const piece of pieces) {
    yield piece;
    bytes += piece.length;
    const wait = (1000 * bytes) / bytesPerSecond - (performance.now() - began);
    if (wait > 1) await pause(wait);
  }
}
