// One class for everything that can go wrong with input from outside, in every layer. Messages say what to do and never hold a secret, a vector or a score.

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
  WRONG_KEY: { status: 403 },
  NOT_FOUND: { status: 404 },
  ALREADY_EXISTS: { status: 409 },
  /** The collection has moved on since the version a change or a search was based on: read it again. */
  STALE: { status: 409, retryable: true },
  KEY_MISMATCH: { status: 409 },
  QUERY_MISMATCH: { status: 409 },
  BLOCK_MISMATCH: { status: 409 },
  INTEGRITY: { status: 409 },
  LOCKED: { status: 423, retryable: true },
  CLOSED: { status: 503 },
  STORAGE: { status: 507, retryable: true },
} as const satisfies Record<string, { status: number; retryable?: boolean }>;

export type ErrorCode = keyof typeof CODES;

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
