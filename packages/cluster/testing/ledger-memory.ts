// A ledger in the memory of one process, for tests.

import { type Ledger, type LedgerEntry, staleEntry } from '../src/ledger.ts';

export class MemoryLedger implements Ledger {
  readonly #entries: LedgerEntry[] = [];
  readonly #watchers = new Set<(topic: string) => void>();
  #position = 0;

  async append(topic: string, after: number, content: Uint8Array): Promise<number> {
    const newest = this.#entries.findLast((entry) => entry.topic === topic);
    if ((newest?.position ?? 0) !== after) throw staleEntry(topic);
    const entry = { topic, position: ++this.#position, content: new Uint8Array(content) };
    this.#entries.push(entry);
    for (const watcher of this.#watchers) queueMicrotask(() => watcher(topic));
    return entry.position;
  }

  async *read(topic: string, after: number | 'newest'): AsyncGenerator<LedgerEntry> {
    const all = this.#entries.filter((entry) => entry.topic === topic);
    yield* after === 'newest' ? all.slice(-1) : all.filter(({ position }) => position > after);
  }

  watch(onAppend: (topic: string) => void): () => void {
    const watcher = (topic: string) => onAppend(topic);
    this.#watchers.add(watcher);
    return () => this.#watchers.delete(watcher);
  }

  async trim(topic: string, keep: number): Promise<void> {
    const old = this.#entries.filter((entry) => entry.topic === topic).slice(0, -keep);
    for (const entry of old) this.#entries.splice(this.#entries.indexOf(entry), 1);
  }

  /** The same as it is now, for nodes that do not hear of what comes. */
  copy(): MemoryLedger {
    const copy = new MemoryLedger();
    copy.#entries.push(...this.#entries);
    copy.#position = this.#position;
    return copy;
  }

  /** Loses the newest entry of a topic, as servers may that do not sync their disks. */
  lose(topic: string): void {
    const at = this.#entries.findLastIndex((entry) => entry.topic === topic);
    if (at >= 0) this.#entries.splice(at, 1);
  }

  async close(): Promise<void> {
    this.#watchers.clear();
  }
}
