// Whatever goes wrong, a client gets a status and {code, message, retryable}: never a stack, never
// what an unknown error holds.

import { type ErrorBody, encodeError, HersError } from '@hers/service';

/** OVERLOADED, with the seconds after which it makes sense to try again. */
export class Overloaded extends HersError {
  readonly retryAfter: number;

  constructor(message: string, retryAfter: number) {
    super('OVERLOADED', message);
    // Not shown, but sent as a header.
    this.retryAfter = Math.max(1, Math.ceil(retryAfter));
  }
}

export const JSON_TYPE = 'application/json; charset=utf-8';

export interface Refusal {
  readonly status: number;
  readonly body: ErrorBody;
  /** Seconds after which it makes sense to try again. */
  readonly retryAfter?: number;
  /** A bug of ours, which belongs into the log. */
  readonly unexpected: boolean;
}

/** The errors that fastify itself throws have a status and a code of their own. */
interface FrameworkError {
  readonly statusCode?: number;
  readonly code?: string;
  readonly message?: string;
  readonly validation?: unknown;
}

const OF_STATUS: Record<number, HersError['code']> = {
  400: 'INVALID_ARGUMENT',
  404: 'NOT_FOUND',
  405: 'INVALID_ARGUMENT',
  408: 'TIMED_OUT',
  413: 'TOO_LARGE',
  414: 'INVALID_ARGUMENT',
  415: 'INVALID_ARGUMENT',
  431: 'TOO_LARGE',
  503: 'UNAVAILABLE',
};

export function refusalOf(error: unknown): Refusal {
  if (error instanceof HersError) {
    const body = encodeError(error);
    const retryAfter = error instanceof Overloaded ? error.retryAfter : body.code === 'UNAVAILABLE' ? 1 : undefined;
    const { status } = new HersError(body.code, '');
    return { status, body, ...(retryAfter === undefined ? {} : { retryAfter }), unexpected: error.code === 'INTERNAL' };
  }
  const { statusCode, message = '' } = (error ?? {}) as FrameworkError;
  const code = statusCode === undefined ? undefined : OF_STATUS[statusCode];
  if (code === undefined) return { status: 500, body: encodeError(error), unexpected: true };
  const body = encodeError(new HersError(code, message));
  return { status: statusCode!, body, unexpected: false };
}
