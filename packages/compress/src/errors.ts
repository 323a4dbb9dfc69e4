// Everything that can go wrong with what comes from outside, with a code, and a sentence that says
// what to do. The shape is that of the other packages' errors, none of which this package imports.

const CODES = {
  INVALID_ARGUMENT: { status: 400 },
  /**
   * A vector of the wrong length, with something in it that is no number, or without a direction.
   */
  INVALID_VECTOR: { status: 400 },
  /**
   * Labels that do not match the vectors, or that say nothing: one class only, no class with two
   * vectors.
   */
  INVALID_LABELS: { status: 400 },
  MALFORMED: { status: 400 },
  /** A sound model with an operation that neither this program nor a runtime at hand can run. */
  UNSUPPORTED_MODEL: { status: 400 },
  /** onnxruntime-node is not installed. */
  NO_RUNTIME: { status: 501 },
  /** Training was interrupted; what it had learned is in the last checkpoint. */
  ABORTED: { status: 499 },
  /** The loss left the numbers: nothing that could be used came out. */
  DIVERGED: { status: 422 },
  /** The thread that trains died. */
  FAILED: { status: 500 },
} as const;

/** What can go wrong with a compressor. */
export type CompressErrorCode = keyof typeof CODES;

/** What went wrong with a compressor. The message says what to do. */
export class CompressError extends Error {
  override readonly name = 'CompressError';
  /** For programs. */
  readonly code: CompressErrorCode;
  /** The HTTP status that fits it. */
  readonly status: number;
  readonly retryable = false;

  /**
   * For programs that pass one on.
   *
   * @param code - What happened.
   * @param message - What happened, and what to do, in words.
   * @param options - What caused it.
   */
  constructor(code: CompressErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.status = CODES[code].status;
  }
}
