// A search as a bar: where its time went, and what the server saw of it.

import type { JSX } from 'preact';
import { duration, size } from './text.ts';
import { type Exchange, exchanges } from './wire.ts';

export function Timeline({ account }: { readonly account: Account }): JSX.Element {
  const { steps, totalMs } = account;
  return (
    <figure class="timeline">
      <div class="bar" aria-hidden="true">
        {steps.map(({ name, ms, isServer }) => (
          <span key={name} class={isServer ? 'server' : 'page'} style={{ flexGrow: Math.max(ms, totalMs / 200) }} />
        ))}
      </div>
      <ol>
        {steps.map(({ name, ms, isServer, bytes }) => (
          <li key={name} class={isServer ? 'server' : 'page'}>
            {name} {bytes > 0 ? <span class="faint number">{size(bytes)}</span> : null}{' '}
            <span class="number">{duration(ms)}</span>
          </li>
        ))}
        <li class="total">
          in all <span class="number">{duration(totalMs)}</span>
        </li>
      </ol>
    </figure>
  );
}

export interface Step {
  readonly name: string;
  readonly ms: number;
  readonly isServer: boolean;
  /** What went over the network in it. */
  readonly bytes: number;
}

export interface Account {
  readonly totalMs: number;
  readonly steps: readonly Step[];
  /** The request that carried the query. */
  readonly query: Exchange | undefined;
  /** Requests for records. */
  readonly fetches: readonly Exchange[];
}

/** Runs something, and accounts for the requests that it made. */
export async function accounted<T>(work: () => Promise<T>): Promise<{ readonly result: T; readonly account: Account }> {
  const last = exchanges.value.at(-1)?.number ?? 0;
  const began = performance.now();
  const result = await work();
  const ended = performance.now();
  const own = exchanges.value.filter(({ number, operation }) => number > last && operation !== 'page');
  const query = own.find(({ operation }) => operation === 'search');
  const fetches = own.filter(({ operation }) => operation === 'getRecords');
  const steps: Step[] = [];
  let at = began;
  const add = (name: string, until: number, isServer = false, bytes = 0) => {
    if (until > at) steps.push({ name, ms: until - at, isServer, bytes });
    at = Math.max(at, until);
  };
  if (query) {
    // Before the query: whether the collection has changed meanwhile.
    const before = own.filter((each) => each.beganAt < query.beganAt && each.operation !== 'getRecords');
    add('look for changes', Math.max(began, ...before.map(({ endedAt = 0 }) => endedAt)), true);
    add('encrypt', query.beganAt);
    add('send, scan', query.headAt ?? query.beganAt, true, query.sent);
    add('receive, decrypt', query.endedAt ?? at, false, query.received);
  }
  const fetched = Math.max(0, ...fetches.map(({ endedAt = 0 }) => endedAt));
  const bytes = fetches.reduce((sum, { received }) => sum + received, 0);
  if (fetched > at) add('fetch records', fetched, true, bytes);
  add('rank', ended);
  return { result, account: { totalMs: ended - began, steps, query, fetches } };
}
