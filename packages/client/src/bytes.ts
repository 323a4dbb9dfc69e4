// Small things about bytes that every file here needs.

import { concatBytes } from '@noble/hashes/utils.js';

export { bytesToHex as hex, concatBytes as concat, hexToBytes as fromHex } from '@noble/hashes/utils.js';

const DIGITS = new TextEncoder().encode('0123456789abcdef');
const ascii = new TextDecoder('latin1');
const encoder = new TextEncoder();
/** Texts up to this length are mostly ids. */
const SHORT_TEXT = 64;

/** The same as `hex`, and faster for many bytes: all digits become one text at once. */
export function hexText(bytes: Uint8Array): string {
  const digits = new Uint8Array(2 * bytes.length);
  for (let i = 0; i < bytes.length; i++) {
    digits[2 * i] = DIGITS[bytes[i] >> 4];
    digits[2 * i + 1] = DIGITS[bytes[i] & 15];
  }
  return ascii.decode(digits);
}

/** Writes the bytes of hexadecimal text, lower case, to a place: `fromHex` without an array. */
export function putHex(text: string, out: Uint8Array, at: number): void {
  const digit = (i: number) => {
    const code = text.charCodeAt(i);
    return code < 0x3a ? code - 0x30 : code - 0x57;
  };
  for (let i = 0; i < text.length; i += 2) out[at + i / 2] = (digit(i) << 4) | digit(i + 1);
}

/**
 * Writes text as UTF-8 to a place, which has room for three bytes for each of its units; returns
 * how many it took.
 */
export function putText(text: string, out: Uint8Array, at: number): number {
  // Short ASCII takes less time than a call of the encoder, and than a view to write to.
  let i = 0;
  if (text.length <= SHORT_TEXT)
    for (let code = 0; i < text.length; i++) {
      if ((code = text.charCodeAt(i)) > 0x7f) break;
      out[at + i] = code;
    }
  return i === text.length ? i : encoder.encodeInto(text, out.subarray(at)).written;
}

/** An id as text, a character for each byte: what names it in a map costs little that way. */
export function nameOf(id: Uint8Array): string {
  // Spelled out for the length of almost all ids: as a list, they would be garbage each time.
  if (id.length !== 16) return String.fromCharCode(...id);
  return String.fromCharCode(
    id[0],
    id[1],
    id[2],
    id[3],
    id[4],
    id[5],
    id[6],
    id[7],
    id[8],
    id[9],
    id[10],
    id[11],
    id[12],
    id[13],
    id[14],
    id[15],
  );
}

/** The memory of an array of numbers. */
export function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

export function u32(value: number): Uint8Array {
  const out = new Uint8Array(4);
  new DataView(out.buffer).setUint32(0, value, true);
  return out;
}

export async function sha256(bytes: Uint8Array): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest('SHA-256', bytes as Uint8Array<ArrayBuffer>));
}

export async function joined(pieces: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  return concatBytes(...(await Array.fromAsync(pieces)));
}

/**
 * Returns the length to which this many bytes are padded by the rule Padmé (Nikitin, Barman, Lueks,
 * Underwood, Hubaux, Ford: Reducing Metadata Leakage from Encrypted Files and Communication with
 * PURBs, PETS 2019, section 4). A size then says O(log log) bits about what it covers, for at most
 * 12 %.
 */
export function padme(length: number): number {
  if (length < 2) return length;
  const exponent = 31 - Math.clz32(length);
  const digits = 32 - Math.clz32(exponent);
  const step = 2 ** (exponent - digits);
  return step <= 1 ? length : Math.ceil(length / step) * step;
}
