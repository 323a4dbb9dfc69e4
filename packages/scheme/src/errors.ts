// One class for everything that can go wrong with input from outside, in every layer. Messages say
// what to do and never hold a secret, a vector or a score.

/** What each code means for HTTP, and whether the same call may succeed later. */
const CODES = {
  INVALID_ARGUMENT: { status: 400 },
  INVALID_VECTOR: { status: 400 },
  UNSUPPORTED_PLAN: { status: 400 },
  INSECURE_PARAMETERS: { status: 400 },
  MALFORMED: { status: 400 },
  UNSUPPORTED_VERSION: { status: 400 },
  DAMAGED: { status: 400 },
  WIPED: { status: 400 },
  /** No token, or none that this server knows. */
  UNAUTHENTICATED: { status: 401 },
  WRONG_KEY: { status: 403 },
  /** A token that is good for other things. */
  FORBIDDEN: { status: 403 },
  NOT_FOUND: { status: 404 },
  /** Something was sent too slowly, or took longer than a server lets it take. */
  TIMED_OUT: { status: 408 },
  ALREADY_EXISTS: { status: 409 },
  /**
   * The collection has moved on since the version a change or a search was based on: read it again.
   */
  STALE: { status: 409, retryable: true },
  KEY_MISMATCH: { status: 409 },
  QUERY_MISMATCH: { status: 409 },
  BLOCK_MISMATCH: { status: 409 },
  INTEGRITY: { status: 409 },
  /** The clock of a device is far from that of whoever reads what it says. */
  WRONG_CLOCK: { status: 409 },
  TOO_LARGE: { status: 413 },
  LOCKED: { status: 423, retryable: true },
  /** A server has as much to do as it can take. */
  OVERLOADED: { status: 429, retryable: true },
  /** A device has as much in an inbox as it may; there is room when the keeper has taken some. */
  INBOX_FULL: { status: 429, retryable: true },
  /** A mistake in a server. */
  INTERNAL: { status: 500 },
  CLOSED: { status: 503 },
  /** A server cannot be reached, is going down, or broke off in the middle. */
  UNAVAILABLE: { status: 503, retryable: true },
  STORAGE: { status: 507, retryable: true },
} as const satisfies Record<string, { status: number; retryable?: boolean }>;

export type ErrorCode = keyof typeof CODES;

/** Whether this is a code of ours: for errors that come from elsewhere. */
export function isErrorCode(code: unknown): code is ErrorCode {
  return typeof code === 'string' && Object.hasOwn(CODES, code);
}

/**
 * Everything that can go wrong with what comes from outside. The message says what to do, and
 * never holds a secret, a vector or a score. Codes:
 *
 * - INVALID_ARGUMENT, INVALID_VECTOR: something that was given cannot be used.
 * - UNSUPPORTED_PLAN, INSECURE_PARAMETERS: no parameters do, or none that are safe.
 * - MALFORMED, UNSUPPORTED_VERSION, DAMAGED: bytes are no such thing, in another format, altered.
 * - WRONG_KEY, KEY_MISMATCH, WIPED: another key is needed, or this one was wiped.
 * - QUERY_MISMATCH, BLOCK_MISMATCH: parts of different searches or collections were mixed.
 * - INTEGRITY: the store contradicts what was seen before, or cheats.
 * - NOT_FOUND, ALREADY_EXISTS, TOO_LARGE: as they say.
 * - STALE, LOCKED: another one writes; the same call may succeed later.
 * - WRONG_CLOCK, INBOX_FULL: of a device: its clock is wrong; it has too much in an inbox.
 * - STORAGE, CLOSED: the disk fails or is full; it was closed.
 * - UNAUTHENTICATED, FORBIDDEN, TIMED_OUT, OVERLOADED, INTERNAL, UNAVAILABLE: of a server.
 *
 * @example
 * try {
 *   await faces.upsert({ id: 'ada', vector });
 * } catch (error) {
 *   if (!(error instanceof HersError && error.retryable)) throw error;
 *   console.log(error.code, error.message); // and try again later
 * }
 */
export class HersError extends Error {
  override readonly name = 'HersError';
  /** For programs. */
  readonly code: ErrorCode;
  /** The HTTP status that fits it. */
  readonly status: number;
  /** Whether the same call may succeed later. */
  readonly retryable: boolean;

  /**
   * For programs that pass one on.
   *
   * @param code - What happened.
   * @param message - What happened, and what to do, in words.
   */
  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
    const { status, retryable = false }: { status: number; retryable?: boolean } = CODES[code];
    this.status = status;
    this.retryable = retryable;
  }
}

/**
 * Refuses a gallery, or something of one, in a format with another number than the one that this
 * version reads and writes: in the same words wherever that is noticed.
 */
export function otherFormat(what: string): HersError {
  return new HersError(
    'UNSUPPORTED_VERSION',
    `${what} is in another format, which this version neither reads nor converts: use the version that wrote it, or make it again from its source`,
  );
}
