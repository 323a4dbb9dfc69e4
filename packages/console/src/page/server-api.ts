// What whoever runs a server asks of it. The token that the gallery was opened with is used, or one
// of scope admin that is typed for this; it is forgotten with the lock.

import { HersError } from '@hers/client';
import { encodeMessage, OCTETS } from '@hers/service';
import type { Signal } from '@preact/signals';
import { shown } from './shown.ts';
import { unlocked } from './unlocked.ts';

export const adminToken: Signal<string> = shown('');

interface Asking {
  readonly method?: 'GET' | 'POST' | 'DELETE';
  /** The head of a message without parts. */
  readonly head?: object;
}

async function answerOf(path: string, { method = 'GET', head }: Asking = {}): Promise<Response> {
  const token = adminToken.value || unlocked.value?.token || '';
  const answer = await fetch(path, {
    method,
    headers: {
      ...(method === 'GET' ? {} : { 'content-type': OCTETS }),
      ...(token === '' ? {} : { authorization: `Bearer ${token}` }),
    },
    ...(head ? { body: encodeMessage(head, []) as Uint8Array<ArrayBuffer> } : {}),
  }).catch(() => {
    throw new HersError('UNAVAILABLE', `${location.origin} cannot be reached`);
  });
  if (!answer.ok) {
    const { code = 'UNAVAILABLE', message = `the server answered ${answer.status}` } = await answer
      .json()
      .catch(() => ({}));
    throw new HersError(code, String(message));
  }
  return answer;
}

export async function askServer<T>(path: string, asking?: Asking): Promise<T> {
  const answer = await answerOf(`/v1/server/${path}`, asking);
  return answer.status === 204 ? (undefined as T) : answer.json();
}

export const readMetrics = async (): Promise<string> => (await answerOf('/metrics')).text();
