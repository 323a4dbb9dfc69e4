// Sealed columns: the values of one field in the slots of one block (fields/column-format.ts says
// what is in the seal, and how it is padded). The store keeps them as it keeps lists, and the
// manifest names them by their hashes.

import { HersError } from '@hers/service';
import { concat } from '../bytes.ts';
import type { Column } from '../fields/column.ts';
import { decodeColumn, encodeColumn } from '../fields/column-format.ts';
import { type FieldType, invalid, quoted } from '../fields/field.ts';
import type { Interned } from '../fields/interned.ts';
import { type Sealer, seal } from '../keys/sealing.ts';

/** The columns of a block, by field. */
export type BlockColumns = ReadonlyMap<string, Column>;

/** Sealed, about. Whoever reads lists from a server takes no longer ones (transport/http.ts). */
const MAX_COLUMN_BYTES = 2 ** 25 - 2 ** 10;

const encoder = new TextEncoder();

/** The field's name is part of it, so that columns cannot take each other's places. */
const associatedData = (collectionId: Uint8Array, field: string) =>
  concat(encoder.encode('column'), collectionId, encoder.encode(field));

/**
 * What is written is read first: a column that does not come out as it went in would keep everybody
 * from opening the collection.
 */
export async function sealColumn(
  sealer: Sealer,
  collectionId: Uint8Array,
  field: string,
  column: Column,
): Promise<Uint8Array> {
  const { type, count } = column;
  const encoded = encodeColumn(column);
  if (encoded.length > MAX_COLUMN_BYTES)
    throw invalid(`the values of ${count} records in the field ${quoted(field)} take more than 32 MiB; shorten them`);
  const read = decodeColumn(encoded, type, count);
  for (let slot = 0; slot < count; slot++)
    if (String(read.value(slot)) !== String(column.value(slot)))
      throw new HersError('INTEGRITY', `a bug: the field ${quoted(field)} cannot be written; nothing was changed`);
  return seal(sealer, encoded, associatedData(collectionId, field));
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
