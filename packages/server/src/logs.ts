// What is logged: names, numbers and codes. Never a header, a body, a query string, or the message
// of an error that is not ours, for nobody knows what those hold.

import { HersError, refuseUnknown } from '@hers/service';

/** What is logged: this, and what is worse. */
export type LogLevel = 'fatal' | 'error' | 'warn' | 'info' | 'debug' | 'trace' | 'silent';

/** What is logged, and where to. */
export interface LogOptions {
  /** `info` by default. */
  readonly level?: LogLevel;
  /** Where lines of JSON go; standard output by default. */
  readonly stream?: { write(line: string): void };
}

/** The kind of an error and where it happened; what it says only where it is one of ours. */
function loggedError(error: unknown): object {
  if (!(error instanceof Error)) return { type: typeof error };
  const { name, stack = '', code } = error as Error & { code?: unknown };
  const frames = stack.split('\n').filter((line) => /^\s+at /.test(line));
  return {
    type: name,
    ...(typeof code === 'string' ? { code } : {}),
    ...(error instanceof HersError ? { message: error.message } : {}),
    stack: frames.slice(0, 12).map((line) => line.trim()),
  };
}

export function loggerOptions(options: LogOptions): object {
  refuseUnknown(options, { level: true, stream: true }, 'a log');
  const { level = 'info', stream } = options;
  return {
    level,
    base: null,
    timestamp: () => `,"time":"${new Date().toISOString()}"`,
    formatters: { level: (label: string) => ({ level: label }) },
    serializers: { err: loggedError, error: loggedError, req: () => undefined, res: () => undefined } as never,
    ...(stream ? { stream } : {}),
  };
}
