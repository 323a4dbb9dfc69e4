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
  NEEDS_VAULT: { status: 400 },
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
  TOO_LARGE: { status: 413 },
  LOCKED: { status: 423, retryable: true },
  /** A server has as much to do as it can take. */
  OVERLOADED: { status: 429, retryable: true },
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

export class HersError extends Error {
  override readonly name = 'HersError';
  readonly code: ErrorCode;
  readonly status: number;
  readonly retryable: boolean;

  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
    const { status, retryable = false }: { status: number; retryable?: boolean } = CODES[code];
    this.status = status;
    this.retryable = retryable;
  }
}
