// Two reasons to stop as one signal. AbortSignal.any would keep every signal it ever made for as
// long as the longer-lived of its sources.

export interface EitherSignal {
  readonly signal: AbortSignal;
  /** A third reason. */
  readonly stop: (reason: unknown) => void;
  /** Lets go of both sources. */
  readonly done: () => void;
}

export function eitherSignal(ending: AbortSignal, given?: AbortSignal): EitherSignal {
  const either = new AbortController();
  const onAbort = (event: Event) => either.abort((event.target as AbortSignal).reason);
  const sources = given ? [ending, given] : [ending];
  for (const source of sources) {
    if (source.aborted) either.abort(source.reason);
    else source.addEventListener('abort', onAbort, { once: true });
  }
  return {
    signal: either.signal,
    stop: (reason) => either.abort(reason),
    done: () => {
      for (const source of sources) source.removeEventListener('abort', onAbort);
    },
  };
}
