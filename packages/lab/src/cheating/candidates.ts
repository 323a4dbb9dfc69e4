// The candidate sets that a store was shown, counted by what it is asked.

/** Candidate sets that a store may be shown without having been verified. */
const MOST_UNVERIFIED = 3;

/**
 * The sets that the store was shown of one collection by the clients of one memory, and that it has
 * not proved.
 */
export class Candidates {
  /** By their handles in order; with the call that asked for them last. */
  readonly #open = new Map<string, number>();
  /** Shown before somebody resumed: another client may not know of that, and ask for them again. */
  readonly #past = new Set<string>();
  isStopped = false;
  most = 0;

  /**
   * The set that is meant: in one call it may be asked for again, without those that were deleted
   * meanwhile.
   */
  #meant(handles: readonly string[], call: number): string {
    const exactly = handles.toSorted().join(' ');
    if (this.#open.has(exactly) || this.#past.has(exactly)) return exactly;
    const isLarger = ([set, last]: [string, number]) =>
      last === call && handles.every((handle) => set.includes(handle));
    return [...this.#open].find(isLarger)?.[0] ?? exactly;
  }

  /** A set is asked for; returns what is wrong with that. */
  ask(handles: readonly string[], call: number): string | undefined {
    const set = this.#meant(handles, call);
    if (this.#past.has(set)) return undefined;
    const isNew = !this.#open.has(set);
    this.#open.set(set, call);
    this.most = Math.max(this.most, this.#open.size);
    if (isNew && this.isStopped) return 'candidates were shown after a wrong score, and before anybody resumed';
    return this.#open.size > MOST_UNVERIFIED
      ? `${this.#open.size} sets of candidates were shown and not verified`
      : undefined;
  }

  /**
   * The store gave these records as they are. When their scores are wrong the client stops, and
   * says so.
   */
  given(handles: readonly string[], call: number): void {
    this.#open.delete(this.#meant(handles, call));
  }

  resume(): void {
    for (const set of this.#open.keys()) this.#past.add(set);
    this.#open.clear();
    this.isStopped = false;
  }
}
