// Which of the published addons this machine can load (tools/addons.ts).

import { closeSync, openSync, readSync } from 'node:fs';

export interface Machine {
  readonly platform: string;
  readonly arch: string;
  /** Whether Node was linked to musl in place of glibc: no loader loads what the other is for. */
  readonly isMusl: boolean;
}

/** The file of a published addon. */
export function addonName(addon: 'client' | 'ring' | 'scan', { platform, arch, isMusl }: Machine): string {
  return `hers_${addon}.${platform}-${arch}${isMusl ? '-musl' : ''}.node`;
}

export function thisMachine(): Machine {
  const { platform, arch, execPath } = process;
  return { platform, arch, isMusl: platform === 'linux' && (interpreterOf(execPath)?.includes('/ld-musl-') ?? false) };
}

const PT_INTERP = 3;

/**
 * The loader that a program of 64 bits asks for, which names the C library. A system may have the
 * loaders of both. Node's own report names it as well, and takes tens of milliseconds.
 */
export function interpreterOf(program: string): string | undefined {
  let file: number | undefined;
  try {
    file = openSync(program, 'r');
    const header = bytesAt(file, 0, 64);
    if (header.readUInt32BE(0) !== 0x7f454c46 || header[4] !== 2 || header[5] !== 1) return undefined;
    const [start, size, count] = [Number(header.readBigUInt64LE(32)), header.readUInt16LE(54), header.readUInt16LE(56)];
    for (let i = 0; i < count; i++) {
      const entry = bytesAt(file, start + i * size, 56);
      if (entry.readUInt32LE(0) === PT_INTERP)
        return bytesAt(file, Number(entry.readBigUInt64LE(8)), Number(entry.readBigUInt64LE(32)))
          .toString('latin1')
          .replace(/\0.*$/s, '');
    }
  } catch {
    // Who may run it need not be allowed to read it. glibc is the rule.
  } finally {
    if (file !== undefined) closeSync(file);
  }
  return undefined;
}

function bytesAt(file: number, position: number, length: number): Buffer {
  const bytes = Buffer.alloc(length);
  return bytes.subarray(0, readSync(file, bytes, 0, length, position));
}
