// Who did what to which collection, one JSON object a line: a record of its own, beside the log. It
// holds names and outcomes and nothing else.

import { closeSync, constants, fchmodSync, fstatSync, openSync, writeSync } from 'node:fs';
import { open as openFile } from 'node:fs/promises';
import { refuseUnknown } from '@hers/service';
import { AS_FILE, isFileThere, requireFile } from '@hers/service/target';

const { O_APPEND, O_CREAT, O_WRONLY } = constants;

/** One line of the audit log: who did what to which collection, and how it ended. */
export interface AuditEntry {
  /** ISO 8601, in UTC. */
  readonly time: string;
  /** The id of the token; absent where there are no tokens, or it was not known. */
  readonly token?: string;
  /** Of the caller, as the server sees it. */
  readonly address: string;
  /** What was asked for, as the metrics call it. */
  readonly operation: string;
  /** The collection in the path, if one is. */
  readonly collection?: string;
  /** The HTTP status of the answer. */
  readonly status: number;
  /** The code of the error, where it was refused or failed. */
  readonly code?: string;
}

/** Of strangers there may be more than a disk has room for: what was not written is counted. */
export interface LeftOut {
  /** ISO 8601, in UTC. */
  readonly time: string;
  /** Tells this line from those of requests. */
  readonly operation: 'leftOut';
  /** How many were not written. */
  readonly requests: number;
  /** UNAUTHENTICATED: 17, and so on; `none` where there was no code. */
  readonly codes: Readonly<Record<string, number>>;
  /** Of the first few. */
  readonly addresses: Readonly<Record<string, number>>;
}

/** Where requests are written down; `openAudit` makes one. */
export interface Audit {
  /**
   * Appends a line, at once. After `close` it does nothing.
   *
   * @param entry - What was asked, by whom, and how it ended.
   * @throws {Error} with a code of the system, where the disk refuses.
   */
  write(entry: AuditEntry): void;
  /**
   * The last lines, the newest last. What is no line of an audit log is left out.
   *
   * @param count - How many at most.
   * @throws {Error} with a code of the system, where the file cannot be read.
   */
  last(count: number): Promise<readonly (AuditEntry | LeftOut)[]>;
  /** Closes the file. */
  close(): void;
}

/** What an audit log takes besides its path. */
export interface AuditOptions {
  /** Whether whoever shows no token is a stranger: where there are tokens. */
  readonly limitStrangers?: boolean;
}

/** Lines a minute for all strangers together. Whoever has a token is always written down. */
const STRANGERS_A_MINUTE = 60;
const MINUTE_MS = 60_000;
const MAX_ADDRESSES = 16;

/**
 * Appends to a file that only its owner can read. What is no file is refused: its permissions are
 * not ours to change.
 *
 * @param path - Of the file, which is made where there is none.
 * @param options - Whether lines about strangers are limited.
 * @throws {HersError} INVALID_ARGUMENT: for a path that is no file, or an option that there is not.
 * @throws {Error} with a code of the system, where the file cannot be opened.
 */
export function openAudit(path: string, options: AuditOptions = {}): Audit {
  refuseUnknown(options, { limitStrangers: true }, 'an audit log');
  const { limitStrangers = false } = options;
  isFileThere(path);
  const file = openSync(path, O_APPEND | O_CREAT | O_WRONLY | AS_FILE, 0o600);
  try {
    const about = fstatSync(file);
    requireFile(path, about);
    if ((about.mode & 0o077) !== 0) fchmodSync(file, 0o600);
  } catch (error) {
    closeSync(file);
    throw error;
  }
  let open = true;
  // A line at a time, and at once: what the kernel has survives the end of the process.
  const append = (line: AuditEntry | LeftOut) => void writeSync(file, `${JSON.stringify(line)}\n`);
  const strangers = new Strangers(append);
  return {
    write(entry) {
      if (!open) return;
      if (!limitStrangers || entry.token !== undefined || strangers.mayBeWritten(entry)) append(entry);
    },
    last: (count) => lastLines(path, count),
    close() {
      if (!open) return;
      open = false;
      strangers.close();
      closeSync(file);
    },
  };
}

/** Of the end of a log that is read. */
const TAIL_BYTES = 2 ** 18;

/** Read from its path: a log that was moved away and made again is read as it is now. */
async function lastLines(path: string, count: number): Promise<(AuditEntry | LeftOut)[]> {
  isFileThere(path);
  const file = await openFile(path, 'r');
  try {
    const { size } = await file.stat();
    const from = Math.max(0, size - TAIL_BYTES);
    const { buffer, bytesRead } = await file.read(Buffer.alloc(size - from), 0, size - from, from);
    const lines = buffer.toString('utf8', 0, bytesRead).split('\n');
    // The first may have begun before.
    const whole = from === 0 ? lines : lines.slice(1);
    return whole.flatMap(entryIn).slice(-count);
  } finally {
    await file.close();
  }
}

function entryIn(line: string): (AuditEntry | LeftOut)[] {
  try {
    const entry = JSON.parse(line);
    return typeof entry?.operation === 'string' ? [entry] : [];
  } catch {
    return [];
  }
}

/**
 * The first lines of a minute are written, the others counted; the minute begins with the first.
 */
class Strangers {
  readonly #append: (line: LeftOut) => void;
  #minute: NodeJS.Timeout | undefined;
  #written = 0;
  #requests = 0;
  #codes = new Map<string, number>();
  #addresses = new Map<string, number>();

  constructor(append: (line: LeftOut) => void) {
    this.#append = append;
  }

  mayBeWritten({ code = 'none', address }: AuditEntry): boolean {
    this.#minute ??= setTimeout(() => this.#endMinute(), MINUTE_MS).unref();
    if (this.#written < STRANGERS_A_MINUTE) {
      this.#written++;
      return true;
    }
    this.#requests++;
    addOne(this.#codes, code);
    if (this.#addresses.has(address) || this.#addresses.size < MAX_ADDRESSES) addOne(this.#addresses, address);
    return false;
  }

  #endMinute(): void {
    this.#minute = undefined;
    this.#written = 0;
    try {
      this.#report();
    } catch {
      // The disk is full, perhaps. The numbers stay; the next line that cannot be written is told
      // by whoever writes it.
      this.#minute = setTimeout(() => this.#endMinute(), MINUTE_MS).unref();
    }
  }

  #report(): void {
    if (this.#requests === 0) return;
    this.#append({
      time: new Date().toISOString(),
      operation: 'leftOut',
      requests: this.#requests,
      codes: Object.fromEntries(this.#codes),
      addresses: Object.fromEntries(this.#addresses),
    });
    this.#requests = 0;
    this.#codes = new Map();
    this.#addresses = new Map();
  }

  close(): void {
    clearTimeout(this.#minute);
    try {
      this.#report();
    } catch {} // nobody is left to be told
  }
}

function addOne(counts: Map<string, number>, key: string): void {
  counts.set(key, (counts.get(key) ?? 0) + 1);
}
