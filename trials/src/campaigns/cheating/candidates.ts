// The candidate sets that a store has seen, counted by its requests.

/** Candidate sets that a store may see before it is verified. */
const MOST_UNVERIFIED = 3;

/**
 * The sets of one collection that the clients of one memory have shown to the store, and that it
 * has not proved.
 */
export class Candidates {
  /** By their sorted handles, with the call that requested them last. */
  readonly #open = new Map<string, number>();
  /** Shown before a resume: another client may not know of it, and request them again. */
  readonly #past = new Set<string>();
  isStopped = false;
  most = 0;

  /**
   * The set that is meant: the same call may request it again, without records that were deleted in
   * the meantime.
   */
  #meant(handles: readonly string[], call: number): string {
    const exactly = handles.toSorted().join(' ');
    if (this.#open.has(exactly) || this.#past.has(exactly)) return exactly;
    const isLarger = ([set, last]: [string, number]) =>
      last === call && handles.every((handle) => set.includes(handle));
    return [...this.#open].find(isLarger)?.[0] ?? exactly;
  }

  /** A set is requested; returns what is wrong with that. */
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
   * The store returned these records unaltered. If their scores are wrong, the client stops and
   * reports it.
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
