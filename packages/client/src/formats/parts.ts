// Named parts at the end of sealed records and lists: what is added later is a part rather than a
// format with another number. Each part says whether a reader that does not know it may ignore it.
//
//   part      flags u8, length of the name u8, length of the content u32, name (ASCII), content
//
// A reader that does not know a part marked `must understand` refuses the whole thing with
// UNSUPPORTED_VERSION. One marked `may ignore` it skips; it is not carried along when the thing is
// written again.

import { HersError, otherFormat } from '@hers/service';
import { concat, u32 } from '../bytes.ts';

const MUST_UNDERSTAND = 1;
const HEAD_BYTES = 6;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export interface Part {
  readonly name: string;
  readonly must: boolean;
  readonly content: Uint8Array;
}

export function partBytes(name: string, contentBytes: number): number {
  return HEAD_BYTES + name.length + contentBytes;
}

export function encodePart({ name, must, content }: Part): Uint8Array {
  const head = Uint8Array.of(must ? MUST_UNDERSTAND : 0, name.length);
  return concat(head, u32(content.length), encoder.encode(name), content);
}

/** The parts in these bytes; unknown ones are left out if they may be ignored. */
export function decodeParts(bytes: Uint8Array, known: ReadonlySet<string>): Map<string, Uint8Array> {
  const parts = new Map<string, Uint8Array>();
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0; at < bytes.length; ) {
    const nameAt = at + HEAD_BYTES;
    const contentAt = nameAt <= bytes.length ? nameAt + bytes[at + 1] : nameAt;
    const end = contentAt <= bytes.length ? contentAt + view.getUint32(at + 2, true) : contentAt;
    if (end > bytes.length) throw new HersError('INTEGRITY', 'sealed data ends in the middle of a part');
    const name = decoder.decode(bytes.subarray(nameAt, contentAt));
    if (known.has(name)) parts.set(name, bytes.subarray(contentAt, end));
    else if (bytes[at] & MUST_UNDERSTAND) throw otherFormat('this collection');
    at = end;
  }
  return parts;
}
