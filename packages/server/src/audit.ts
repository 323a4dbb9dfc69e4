// Who did what to which collection, one JSON object a line: a record of its own, beside the log. It holds names and outcomes and nothing else.

import { closeSync, constants, fchmodSync, fstatSync, openSync, writeSync } from 'node:fs';
import { AS_FILE, isFileThere, requireFile } from '@hers/service/target';

const { O_APPEND, O_CREAT, O_WRONLY } = constants;

export interface AuditEntry {
  readonly time: string;
  /** The id of the token; absent where there are no tokens, or it was not known. */
  readonly token?: string;
  readonly address: string;
  readonly operation: string;
  readonly collection?: string;
  readonly status: number;
  /** The code of the error, where it was refused or failed. */
  readonly code?: string;
}

export interface Audit {
  write(entry: AuditEntry): void;
  close(): void;
}

/** Appends to a file that only its owner can read. What is no file is refused: its permissions are not ours to change. */
export function openAudit(path: string): Audit {
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
  return {
    write(entry) {
      // A line at a time, and at once: what the kernel has survives the end of the process.
      if (open) writeSync(file, `${JSON.stringify(entry)}\n`);
    },
    close() {
      if (open) closeSync(file);
      open = false;
    },
  };
}
