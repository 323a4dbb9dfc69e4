// Bytes from a file or a pipe.

import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { resolve } from 'node:path';
import { ByteSource } from '@hers/vectors/npy';
import type { Environment } from '../environment.ts';
import { CommandError, EXIT } from '../exit.ts';

export { ByteSource };

/** Standard input, as an argument. */
export const STANDARD_INPUT = '-';

/** A file, or standard input for `-`. */
export async function openBytes({ cwd, stdin, signal }: Environment, argument: string): Promise<ByteSource> {
  if (argument === STANDARD_INPUT) {
    if (stdin.isTTY)
      throw new CommandError(EXIT.usage, 'standard input is a terminal', 'send data through a pipe, or name a file');
    return new ByteSource('standard input', untilAborted(stdin as AsyncIterable<Uint8Array>, signal));
  }
  const path = resolve(cwd, argument);
  const info = await stat(path);
  if (info.isDirectory()) throw new CommandError(EXIT.usage, `${argument} is a folder`, 'name a file');
  const stream = createReadStream(path, { highWaterMark: 2 ** 18 });
  return new ByteSource(argument, untilAborted(stream, signal), info.isFile() ? info.size : undefined);
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
