// One class for everything that can go wrong with input from outside. Messages say what to do and never hold a secret, a vector or a score.

/** What each code means for HTTP, and whether the same call may succeed later. */
const CODES = {
  INVALID_ARGUMENT: 400,
  INVALID_VECTOR: 400,
  UNSUPPORTED_PLAN: 400,
  INSECURE_PARAMETERS: 400,
  MALFORMED: 400,
  UNSUPPORTED_VERSION: 400,
  DAMAGED: 400,
  KEY_MISMATCH: 409,
  QUERY_MISMATCH: 409,
  BLOCK_MISMATCH: 409,
  INTEGRITY: 409,
  WIPED: 400,
} as const;

export type ErrorCode = keyof typeof CODES;

export class HersError extends Error {
  override readonly name = 'HersError';
  readonly code: ErrorCode;
  readonly status: number;
  readonly retryable: boolean = false;

  constructor(code: ErrorCode, message: string) {
    super(message);
    this.code = code;
    this.status = CODES[code];
  }
}
