// Sealed columns: the values of one field in the slots of one block (fields/column-format.ts says
// what is in the seal, and how it is padded). The store keeps them as it keeps lists, and the
// manifest names them by their hashes.

import { concat } from '../bytes.ts';
import type { Column } from '../fields/column.ts';
import { decodeColumn, encodeColumn } from '../fields/column-format.ts';
import type { FieldType } from '../fields/field.ts';
import type { Interned } from '../fields/interned.ts';
import { type Sealer, seal } from '../keys/sealing.ts';

/** The columns of a block, by field. */
export type BlockColumns = ReadonlyMap<string, Column>;

const encoder = new TextEncoder();

/** The field's name is part of it, so that columns cannot take each other's places. */
const associatedData = (collectionId: Uint8Array, field: string) =>
  concat(encoder.encode('column'), collectionId, encoder.encode(field));

export function sealColumn(
  sealer: Sealer,
  collectionId: Uint8Array,
  field: string,
  column: Column,
): Promise<Uint8Array> {
  return seal(sealer, encodeColumn(column), associatedData(collectionId, field));
}

/** What a column should be. */
export interface ColumnShape {
  readonly field: string;
  readonly type: FieldType;
  readonly count: number;
}

/** INTEGRITY if it is not that. */
export async function openColumn(
  sealer: Sealer,
  collectionId: Uint8Array,
  { field, type, count }: ColumnShape,
  sealed: Uint8Array,
  interned: Interned,
): Promise<Column> {
  const plain = await sealer.open(sealed, associatedData(collectionId, field));
  return decodeColumn(plain, type, count, interned);
}
