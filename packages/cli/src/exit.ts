// How a run ends: the exit codes that scripts can rely on, and the one sentence that says what went
// wrong and what to do next.

import { HersError } from '@hers/client';
import { CompressError } from '@hers/compress';

export const EXIT = {
  done: 0,
  no: 1,
  usage: 2,
  absent: 3,
  key: 4,
  input: 5,
  integrity: 6,
  storage: 7,
  unexpected: 70,
  interrupted: 130,
  terminated: 143,
} as const;

export type Exit = (typeof EXIT)[keyof typeof EXIT];

const CODES: Readonly<
  Record<'usage' | 'absent' | 'key' | 'input' | 'integrity' | 'storage', readonly HersError['code'][]>
> = {
  usage: ['INVALID_ARGUMENT', 'UNSUPPORTED_PLAN', 'INSECURE_PARAMETERS'],
  absent: ['NOT_FOUND', 'ALREADY_EXISTS'],
  key: ['WRONG_KEY', 'UNAUTHENTICATED', 'FORBIDDEN', 'WIPED', 'KEY_MISMATCH'],
  input: ['INVALID_VECTOR', 'MALFORMED', 'UNSUPPORTED_VERSION', 'TOO_LARGE', 'WRONG_CLOCK'],
  integrity: ['INTEGRITY', 'DAMAGED', 'QUERY_MISMATCH', 'BLOCK_MISMATCH'],
  storage: ['LOCKED', 'STALE', 'CLOSED', 'STORAGE', 'OVERLOADED', 'UNAVAILABLE', 'TIMED_OUT', 'INBOX_FULL'],
};
const EXIT_OF: ReadonlyMap<HersError['code'], Exit> = new Map(
  Object.entries(CODES).flatMap(([name, codes]) => codes.map((code) => [code, EXIT[name as keyof typeof CODES]])),
);

/** What the messages of the SDK cannot say, because they do not know the command line. */
const NEXT: Partial<Record<HersError['code'], string>> = {
  WRONG_KEY: 'check --key and the passphrase',
  INTEGRITY: 'stop here, and compare the gallery with a snapshot you trust',
  LOCKED: 'then run the command again; where it is `hers serve`, write through it: --gallery http://127.0.0.1:7443',
  UNAVAILABLE: 'check --gallery, and that the server runs',
  UNAUTHENTICATED: 'set HERS_TOKEN, or name a file with --token-file',
  FORBIDDEN: 'use another token',
};

/**
 * What to do about a certificate that is not trusted, if that is what is wrong: trying again does
 * not help. docs/server.md says the same.
 */
export function certificateAdvice({ code, message }: HersError): string | undefined {
  if (code !== 'UNAVAILABLE' || !/certificate/i.test(message)) return undefined;
  if (/altnames/.test(message)) return 'name the server in --gallery as its certificate does, or have that replaced';
  if (/expired/.test(message)) return 'have it renewed where the server runs';
  return 'a certificate of your own making is trusted where NODE_EXTRA_CA_CERTS names its file; any other has to be replaced';
}

/** Something the command line itself refuses. */
export class CommandError extends Error {
  override readonly name = 'CommandError';
  readonly code: string;
  readonly exit: Exit;
  readonly next: string | undefined;
  /** Lines that show the place of what is wrong, for people. */
  readonly place: readonly string[] = [];

  constructor(exit: Exit, message: string, next?: string, code: string = nameOf(exit)) {
    super(message);
    this.exit = exit;
    this.next = next;
    this.code = code;
  }
}

type Refusal = (message: string, next?: string, code?: string) => CommandError;

const refusal =
  (exit: Exit): Refusal =>
  (...said) =>
    new CommandError(exit, ...said);

export const usageError: Refusal = refusal(EXIT.usage);
export const inputError: Refusal = refusal(EXIT.input);
export const absentError: Refusal = refusal(EXIT.absent);

function nameOf(exit: Exit): string {
  return Object.entries(EXIT)
    .find(([, value]) => value === exit)![0]
    .toUpperCase();
}

/** The reason of an aborted signal: a person, or the system, wants the run to end. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted';
  readonly exit: Exit;

  constructor(signal: 'SIGINT' | 'SIGTERM') {
    super('stopped');
    this.exit = signal === 'SIGINT' ? EXIT.interrupted : EXIT.terminated;
  }
}

/** Says how far it came when it was stopped; other errors pass unchanged. */
export function stoppedAt(error: unknown, signal: AbortSignal, where: string): unknown {
  const { reason } = signal;
  if (!signal.aborted || !(reason instanceof Interrupted)) return error;
  return new CommandError(reason.exit, `stopped: ${where}`, undefined, 'INTERRUPTED');
}

/** What the SDK advises, as the command line spells it. */
const IN_COMMAND_WORDS: readonly (readonly [string, string])[] = [
  ['plan with a larger bound', 'make the collection with a larger --norm-bound'],
  ['list() yields the ids there are', '`hers list` prints the ids there are'],
  ['addFields (hers fields add)', '`hers fields add`'],
];

export function inCommandWords(message: string): string {
  return IN_COMMAND_WORDS.reduce((text, [ours, theirs]) => text.replace(ours, theirs), message);
}

/** What to do next, where the message of the SDK does not say it. */
function nextStep({ code, message }: HersError): string | undefined {
  if (/^there is no collection "[^"]*"$/.test(message)) return '`hers collections list` shows which there are';
  if (/^there is no token /.test(message)) return '`hers tokens list` shows which there are';
  return NEXT[code];
}

export interface Ending {
  readonly exit: Exit;
  readonly code: string;
  readonly message: string;
  readonly next?: string;
  /** Lines that show where, for people. */
  readonly place?: readonly string[];
}

/** What any error means for the person who ran the command. */
export function endingOf(error: unknown): Ending {
  if (error instanceof CommandError) {
    const { exit, code, message, next, place } = error;
    return { exit, code, message: inCommandWords(message), ...(next === undefined ? {} : { next }), place };
  }
  if (error instanceof Interrupted) return { exit: error.exit, code: 'INTERRUPTED', message: error.message };
  if (error instanceof HersError) {
    const { code } = error;
    const certificate = certificateAdvice(error);
    // Node's own advice, behind a semicolon, is not ours.
    if (certificate !== undefined)
      return { exit: EXIT.key, code, message: error.message.replace(/;.*$/s, ''), next: certificate };
    const message = inCommandWords(error.message);
    const next = nextStep(error);
    return { exit: EXIT_OF.get(code) ?? EXIT.unexpected, code, message, ...(next === undefined ? {} : { next }) };
  }
  if (error instanceof CompressError && error.code !== 'FAILED') {
    const { code, message } = error;
    if (code === 'NO_RUNTIME') return { exit: EXIT.absent, code, message };
    return { exit: code === 'INVALID_ARGUMENT' ? EXIT.usage : EXIT.input, code, message };
  }
  return (
    fileEnding(error) ?? {
      exit: EXIT.unexpected,
      code: 'UNEXPECTED',
      message: `something unexpected happened: ${messageOf(error)}`,
      next: 'run it again with --verbose, and report what that prints',
    }
  );
}

/** Says in our words what Node says of a file. */
const FILES: Readonly<
  Record<string, (path: string | undefined) => readonly [exit: Exit, message: string, next: string]>
> = {
  ENOENT: (path) => [EXIT.absent, `there is no ${path ?? 'such file'}`, 'check the path'],
  EISDIR: (path = 'the file') => [EXIT.usage, `${path} is a folder`, 'name a file'],
  ENOTDIR: (path = 'the file') => [EXIT.usage, `${path} is not a file`, 'name a file'],
  EEXIST: (path = 'the file') => [EXIT.absent, `${path} exists already`, 'choose another name'],
  EACCES: untouchable,
  EPERM: untouchable,
  EROFS: untouchable,
  ENOSPC: full,
  EDQUOT: full,
};

function untouchable(path = 'the file'): readonly [Exit, string, string] {
  return [EXIT.storage, `${path} cannot be read or written`, 'check its permissions and owner'];
}

function full(): readonly [Exit, string, string] {
  return [EXIT.storage, 'the disk is full', 'make room, then run the command again'];
}

function fileEnding(error: unknown): Ending | undefined {
  const { code, path } = error as NodeJS.ErrnoException;
  if (!(error instanceof Error) || code === undefined || !Object.hasOwn(FILES, code)) return undefined;
  const [exit, message, next] = FILES[code]!(path);
  return { exit, code, message, next };
}

export function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** `message; next.` — one sentence, whatever its parts end with. */
export function sentence({ message, next }: Pick<Ending, 'message' | 'next'>): string {
  const start = message.replace(/[.\s]+$/, '');
  return next === undefined ? `${start}.` : `${start}; ${next}.`;
}
