// What whoever runs a server asks of it. The token that the gallery was opened with is used, or one
// of scope admin that is typed for this; it is forgotten with the lock.

import { HersError } from '@hers/client';
import { decodeError, encodeMessage, OCTETS } from '@hers/service';
import type { Signal } from '@preact/signals';
import { shown } from './state.ts';
import { unlocked } from './unlocked.ts';

export const adminToken: Signal<string> = shown('');

interface Asking {
  readonly method?: 'GET' | 'POST' | 'DELETE';
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
    const body: unknown = await textOf(answer)
      .then((text) => JSON.parse(text))
      .catch(() => undefined);
    // That one is of another copy of the class, which no view would know.
    const { code, message } = decodeError(body) ?? {
      code: 'UNAVAILABLE' as const,
      message: `the server answered ${answer.status}`,
    };
    throw new HersError(code, message);
  }
  return answer;
}

/** A server that sends without end does not fill the memory of the page. */
const MAX_BYTES = 16e6;

async function textOf(answer: Response): Promise<string> {
  const decoder = new TextDecoder();
  let text = '';
  for await (const piece of answer.body ?? []) {
    text += decoder.decode(piece, { stream: true });
    if (text.length > MAX_BYTES) throw new HersError('TOO_LARGE', 'the server answered more than can be shown');
  }
  return text + decoder.decode();
}

export async function askServer<T>(path: string, asking?: Asking): Promise<T> {
  const text = await textOf(await answerOf(`/v1/server/${path}`, asking));
  try {
    return text === '' ? (undefined as T) : JSON.parse(text);
  } catch {
    throw new HersError('MALFORMED', 'the server answered what is no JSON');
  }
}

export const readMetrics = async (): Promise<string> => textOf(await answerOf('/metrics'));
