// A search as a bar: where its time went.

import type { JSX } from 'preact';
import type { Account } from './account.ts';
import { duration } from './quantities.ts';

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
        {steps.map(({ name, ms, isServer }) => (
          <li key={name} class={isServer ? 'server' : 'page'}>
            {name} <span class="number">{duration(ms)}</span>
          </li>
        ))}
        <li class="total">
          in all <span class="number">{duration(totalMs)}</span>
        </li>
      </ol>
    </figure>
  );
}
