// Asynchronous work that must not overlap: it runs in the order in which it was requested.

export class SerialQueue {
  #last: Promise<unknown> = Promise.resolve();

  run<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => {});
    return turn;
  }

  /** Resolves when everything requested so far is done. */
  async idle(): Promise<void> {
    await this.#last;
  }
}

/** Returns a function that lets other work have the thread, and throws once `signal` is aborted. */
export const pausing = (signal: AbortSignal) => async (): Promise<void> => {
  await new Promise(setImmediate);
  signal.throwIfAborted();
};
