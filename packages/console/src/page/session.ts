// Which server this page is from: `hers serve`, which may ask for a token, or `hers console`, which
// asks for the secret of the address that it has printed.

import { type Signal, signal } from '@preact/signals';
import { readExample } from './example.ts';

export interface Origin {
  readonly kind: 'server' | 'command';
  /** How the gallery is called, and remembered. */
  readonly gallery: string;
}

export type Arrival =
  | { readonly state: 'arriving' }
  | ({ readonly state: 'here' } & Origin)
  | { readonly state: 'refused'; readonly why: string };

export const arrival: Signal<Arrival> = signal({ state: 'arriving' });

/** Shared by the tabs of this origin; worth nothing without the cookie, and to no other process. */
const TOKEN = 'hers console token';
const FRAGMENT = /^#open=([\w-]+)$/;

/** What the server of the page wants to see with every request. */
export function sessionHeaders(): Record<string, string> {
  const token = localStorage.getItem(TOKEN);
  return token === null ? {} : { 'x-hers-console': token };
}

interface Answer {
  readonly kind?: 'server' | 'command';
  readonly gallery?: string;
  readonly token?: string;
  readonly message?: string;
}

async function ask(init: RequestInit): Promise<Answer> {
  const answer = await fetch('session', init);
  const body: Answer = await answer.json();
  if (!answer.ok) throw new Error(body.message ?? `the server of this page answered ${answer.status}`);
  return body;
}

export async function arrive(): Promise<void> {
  const secret = FRAGMENT.exec(location.hash)?.[1];
  // Before anything else can read it or write it down.
  if (secret !== undefined) history.replaceState(null, '', location.pathname);
  try {
    const answer = secret === undefined ? await ask({}) : await open(secret);
    if (answer.token !== undefined) localStorage.setItem(TOKEN, answer.token);
    const { kind = 'server', gallery = location.origin } = answer;
    // Most galleries are none.
    await readExample().catch(() => {});
    arrival.value = { state: 'here', kind, gallery };
  } catch (error) {
    arrival.value = { state: 'refused', why: (error as Error).message };
  }
}

/** An address that was opened before in this browser still leads in. */
async function open(secret: string): Promise<Answer> {
  try {
    return await ask({ method: 'POST', body: secret });
  } catch (refused) {
    return ask({}).catch(() => {
      throw refused;
    });
  }
}

export async function offeredKey(): Promise<{ readonly name: string; readonly text: string } | undefined> {
  const answer = await fetch('key');
  const { name, text } = (await answer.json()) as { name?: string; text?: string };
  return answer.ok && name !== undefined && text !== undefined ? { name, text } : undefined;
}
