// The order of all changes: for each topic, a sequence of entries that everybody sees alike. What
// provides it is a service of its own, such as NATS with JetStream (ledger-nats.ts); an engine that
// can append on a condition, read and notify can stand in.

import { setTimeout as pause } from 'node:timers/promises';
import { HersError } from '@hers/service';
import { isCode } from './arguments.ts';

export interface LedgerEntry {
  readonly topic: string;
  /** Grows from entry to entry of a topic, by any amount. */
  readonly position: number;
  readonly content: Uint8Array;
}

export interface Ledger {
  /**
   * Appends an entry if the newest of its topic is still the one at this position (0: there is
   * none), and returns its position. STALE if it is not. UNAVAILABLE if the ledger does not answer:
   * then it is unknown whether the entry was appended, and appending the same again finds out.
   */
  append(topic: string, after: number, content: Uint8Array): Promise<number>;
  /** Entries of a topic behind a position, in order; or the newest alone. */
  read(topic: string, after: number | 'newest'): AsyncIterable<LedgerEntry>;
  /**
   * Calls `onAppend` with the topics to which something is appended. It is a hint: one may be left
   * out. Returns a function that ends it.
   */
  watch(onAppend: (topic: string) => void): () => void;
  /** Forgets all entries of a topic but the newest ones. */
  trim(topic: string, keep: number): Promise<void>;
  close(): Promise<void>;
}

export const staleEntry = (topic: string): HersError =>
  new HersError('STALE', `another entry of ${topic} came first; read it again`);

export async function newestOf(ledger: Ledger, topic: string): Promise<LedgerEntry | undefined> {
  for await (const entry of ledger.read(topic, 'newest')) return entry;
  return undefined;
}

/** How long a change waits for the ledger: an election of a new leader takes 5 to 7 seconds. */
export const LEDGER_MS = 20_000;
const PAUSE_MS = 100;

/** The same for a change, which waits until the ledger answers. */
export async function awaitNewest(
  ledger: Ledger,
  topic: string,
  closing: AbortSignal,
  withinMs: number = LEDGER_MS,
): Promise<LedgerEntry | undefined> {
  for (const until = performance.now() + withinMs; ; await pause(PAUSE_MS))
    try {
      return await newestOf(ledger, topic);
    } catch (error) {
      closing.throwIfAborted();
      const passes = isCode(error, 'UNAVAILABLE');
      if (!passes || performance.now() > until) throw error;
    }
}
