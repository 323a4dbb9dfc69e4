// Cells of a .csv have no types: the fields of the collection say what they are.

import type { Fields, FieldType, Payload } from '@hers/client';
import { LIST_SEPARATOR } from '../fields.ts';

const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;

/**
 * Cells as the values of their fields, and all others as they are. An empty cell of a field is no
 * value. What is not of its type stays a text, and is refused where values are checked.
 */
export function typedCells(payload: Payload, fields: Fields): Payload {
  if (Object.keys(fields).length === 0) return payload;
  const typed = Object.entries(payload as Record<string, string>).flatMap(([name, cell]) => {
    if (!Object.hasOwn(fields, name)) return [[name, cell] as const];
    return cell === '' ? [] : [[name, typedCell(fields[name]!, cell)] as const];
  });
  return Object.fromEntries(typed);
}

function typedCell(type: FieldType, cell: string): Payload {
  switch (type) {
    case 'number':
      return NUMBER.test(cell) ? Number(cell) : cell;
    case 'boolean':
      // As programs and spreadsheets write them: true, True, TRUE.
      return /^(?:true|false)$/i.test(cell) ? cell.toLowerCase() === 'true' : cell;
    case 'keyword[]':
      return cell
        .split(LIST_SEPARATOR)
        .map((each) => each.trim())
        .filter((each) => each !== '');
    default:
      return cell;
  }
}
