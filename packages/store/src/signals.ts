// Two reasons to stop as one signal. AbortSignal.any would keep every signal it ever made as long as the longer-lived of its sources.

export function eitherSignal(ending: AbortSignal, signal?: AbortSignal): { signal: AbortSignal; done: () => void } {
  if (!signal) return { signal: ending, done: () => {} };
  const either = new AbortController();
  const stop = (event: Event) => either.abort((event.target as AbortSignal).reason);
  const sources = [ending, signal];
  for (const source of sources) {
    if (source.aborted) either.abort(source.reason);
    else source.addEventListener('abort', stop, { once: true });
  }
  const done = () => {
    for (const source of sources) source.removeEventListener('abort', stop);
  };
  return { signal: either.signal, done };
}
