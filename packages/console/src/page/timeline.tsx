// A search as a bar: where its time went.

import type { JSX } from 'preact';
import type { Account } from './account.ts';
import { duration, size } from './quantities.ts';

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
