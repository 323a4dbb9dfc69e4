// What a run of the command sees of the world. Handed in rather than taken from `process`, so that
// tests run commands as functions.

import type { Readable, Writable } from 'node:stream';

/** A stream that may be a terminal. */
export type TerminalWritable = Writable & { readonly isTTY?: boolean; readonly columns?: number };
export type TerminalReadable = Readable & { readonly isTTY?: boolean };

export interface Environment {
  /** Where relative paths begin. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdin: TerminalReadable;
  readonly stdout: TerminalWritable;
  readonly stderr: TerminalWritable;
  /** Aborted by Ctrl-C, with an `Interrupted` as its reason. */
  readonly signal: AbortSignal;
}
