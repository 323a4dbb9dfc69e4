// Small things about bytes that every file here needs.

const PAIRS = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

export function hex(bytes: Uint8Array): string {
  let out = '';
  for (let i = 0; i < bytes.length; i++) out += PAIRS[bytes[i]];
  return out;
}

const DIGITS = new TextEncoder().encode('0123456789abcdef');
const ascii = new TextDecoder('latin1');

/** The same for many bytes at once. */
export function hexText(bytes: Uint8Array): string {
  const digits = new Uint8Array(2 * bytes.length);
  for (let i = 0; i < bytes.length; i++) {
    digits[2 * i] = DIGITS[bytes[i] >> 4];
    digits[2 * i + 1] = DIGITS[bytes[i] & 15];
  }
  return ascii.decode(digits);
}

/** The memory of an array of numbers. */
export function bytesOf({ buffer, byteOffset, byteLength }: ArrayBufferView): Uint8Array {
  return new Uint8Array(buffer, byteOffset, byteLength);
}

const digitOf = (code: number) => (code < 58 ? code - 48 : code - 87);

export function fromHex(text: string): Uint8Array {
  const out = new Uint8Array(text.length >> 1);
  for (let i = 0; i < out.length; i++)
    out[i] = 16 * digitOf(text.charCodeAt(2 * i)) + digitOf(text.charCodeAt(2 * i + 1));
  return out;
}

export function concat(...parts: readonly Uint8Array[]): Uint8Array {
  const out = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
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
  return concat(...(await Array.fromAsync(pieces)));
}
