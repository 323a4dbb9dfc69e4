// Where an entry is in the vault, as the catalogue stores it: pack, offset and length, u32 each.
// Packs end before 2^31 bytes.

export interface Place {
  readonly pack: number;
  readonly offset: number;
  /** Of the whole entry. */
  readonly length: number;
}

export const PLACE_BYTES = 12;

export function encodePlace({ pack, offset, length }: Place, out: Buffer = Buffer.alloc(PLACE_BYTES), at = 0): Buffer {
  out.writeUInt32LE(pack, at);
  out.writeUInt32LE(offset, at + 4);
  out.writeUInt32LE(length, at + 8);
  return out;
}

export function decodePlace(bytes: Uint8Array, at = 0): Place {
  const view = new DataView(bytes.buffer, bytes.byteOffset + at, PLACE_BYTES);
  return { pack: view.getUint32(0, true), offset: view.getUint32(4, true), length: view.getUint32(8, true) };
}

/** Pack 0 means none: the place of a deleted record. */
export const DELETED: Place = { pack: 0, offset: 0, length: 0 };
