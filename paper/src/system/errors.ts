// Everything that can go wrong with input from outside, with a code, and a sentence that says what
// to do. The shape is that of the other engine's errors, which this package does not import.

const CODES = {
  INVALID_ARGUMENT: { status: 400 },
  INVALID_VECTOR: { status: 400 },
  MALFORMED: { status: 400 },
  KEY_MISMATCH: { status: 409 },
  /** The noise of a ciphertext has reached its message: what it decrypts to means nothing. */
  NOISE_EXHAUSTED: { status: 422 },
  /** SEAL's heap, or the machine, would run full. */
  OUT_OF_MEMORY: { status: 507 },
  CLOSED: { status: 503 },
} as const;

export type PaperErrorCode = keyof typeof CODES;

export class PaperError extends Error {
  override readonly name = 'PaperError';
  readonly code: PaperErrorCode;
  readonly status: number;
  readonly retryable = false;

  constructor(code: PaperErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
    this.status = CODES[code].status;
  }
}

/**
 * What an exception of SEAL says. They arrive as WebAssembly exceptions whose message is a pair:
 * the C++ type and the text.
 */
export function sealMessage(error: unknown): string {
  const { message } = error as { message?: unknown };
  return Array.isArray(message) ? String(message.at(-1)) : String(message ?? error);
}
