// Small things about bytes that every file here needs.

export function hex(bytes: Uint8Array): string {
  let out = '';
  for (const byte of bytes) out += byte.toString(16).padStart(2, '0');
  return out;
}

export function fromHex(text: string): Uint8Array {
  return Uint8Array.from({ length: text.length >> 1 }, (_, i) => Number.parseInt(text.slice(2 * i, 2 * i + 2), 16));
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
