// Bytes from a file or a pipe, taken in the portions that a format needs: memory is bounded by the largest portion.

import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { CommandError, EXIT } from './exit.ts';
import type { Surroundings } from './surroundings.ts';

/** Standard input, as an argument. */
export const STANDARD_INPUT = '-';

export class ByteSource {
  /** What errors call it. */
  readonly name: string;
  /** Bytes in all, where that is known beforehand. */
  readonly size: number | undefined;
  readonly #chunks: AsyncIterator<Uint8Array>;
  #held: Uint8Array[] = [];
  #length = 0;
  #ended = false;
  #position = 0;

  constructor(name: string, chunks: AsyncIterable<Uint8Array>, size?: number) {
    this.name = name;
    this.size = size;
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** Bytes taken so far. */
  get position(): number {
    return this.#position;
  }

  async #fill(length: number): Promise<void> {
    while (this.#length < length && !this.#ended) {
      const { value, done } = await this.#chunks.next();
      if (done) this.#ended = true;
      else if (value.length > 0) {
        this.#held.push(value);
        this.#length += value.length;
      }
    }
  }

  #joined(): Uint8Array {
    if (this.#held.length > 1) this.#held = [Buffer.concat(this.#held)];
    return this.#held[0] ?? new Uint8Array(0);
  }

  /** The next bytes, which stay where they are; fewer at the end. */
  async peek(length: number): Promise<Uint8Array> {
    await this.#fill(length);
    return this.#joined().subarray(0, length);
  }

  /** The next bytes; fewer at the end. */
  async take(length: number): Promise<Uint8Array> {
    await this.#fill(length);
    const all = this.#joined();
    const taken = all.subarray(0, length);
    this.#held = taken.length < all.length ? [all.subarray(length)] : [];
    this.#length -= taken.length;
    this.#position += taken.length;
    return taken;
  }

  /** Whatever comes next, as it comes; empty at the end. */
  async some(): Promise<Uint8Array> {
    await this.#fill(1);
    return this.take(this.#length);
  }

  /** All that is left, in the portions it comes in. */
  async *rest(): AsyncGenerator<Uint8Array> {
    for (let chunk = await this.some(); chunk.length > 0; chunk = await this.some()) yield chunk;
  }

  async close(): Promise<void> {
    this.#ended = true;
    await this.#chunks.return?.();
  }
}

/** A file, or standard input for `-`. */
export async function openBytes({ cwd, stdin, signal }: Surroundings, argument: string): Promise<ByteSource> {
  if (argument === STANDARD_INPUT) {
    if (stdin.isTTY)
      throw new CommandError(EXIT.usage, 'standard input is a terminal', 'send data through a pipe, or name a file');
    return new ByteSource('standard input', untilAborted(stdin as AsyncIterable<Uint8Array>, signal));
  }
  const path = resolve(cwd, argument);
  const about = await stat(path);
  if (about.isDirectory()) throw new CommandError(EXIT.usage, `${argument} is a folder`, 'name a file');
  const stream = createReadStream(path, { highWaterMark: 2 ** 18 });
  return new ByteSource(argument, untilAborted(stream, signal), about.isFile() ? about.size : undefined);
}

/** Chunks until the signal: a pipe that stays silent must not keep Ctrl-C from working. */
async function* untilAborted(chunks: AsyncIterable<Uint8Array>, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  const iterator = chunks[Symbol.asyncIterator]();
  const stopped = Promise.withResolvers<never>();
  stopped.promise.catch(() => {});
  const stop = () => stopped.reject(signal.reason);
  signal.addEventListener('abort', stop, { once: true });
  try {
    for (;;) {
      signal.throwIfAborted();
      const { value, done } = await Promise.race([iterator.next(), stopped.promise]);
      if (done) return;
      yield typeof value === 'string' ? Buffer.from(value) : value;
    }
  } finally {
    signal.removeEventListener('abort', stop);
    // Not awaited: the end of a silent pipe may never come.
    void iterator.return?.()?.catch(() => {});
  }
}
