// A filter by form: conditions that all have to hold. The page filters; the server does not learn
// that there is a filter.

import type { Condition, Fields, FieldType, Filter } from '@hers/client';
import type { JSX } from 'preact';
import { Button, Input, Select } from './parts.tsx';

export interface Row {
  readonly field: string;
  readonly operator: string;
  readonly value: string;
}

interface Operator {
  readonly name: string;
  readonly label: string;
  /** Without a value to compare with. */
  readonly isAlone?: true;
}

const IS: Operator = { name: 'is', label: 'is' };
const EMPTY: readonly Operator[] = [
  { name: 'empty', label: 'is empty', isAlone: true },
  { name: 'filled', label: 'is not empty', isAlone: true },
];
const BOUNDS: readonly Operator[] = [
  { name: 'gte', label: '≥' },
  { name: 'lte', label: '≤' },
  { name: 'gt', label: '>' },
  { name: 'lt', label: '<' },
];
const OPERATORS: Readonly<Record<FieldType | 'id', readonly Operator[]>> = {
  keyword: [
    IS,
    { name: 'any', label: 'is one of (commas)' },
    { name: 'except', label: 'is none of (commas)' },
    { name: 'prefix', label: 'begins with' },
    ...EMPTY,
  ],
  'keyword[]': [{ name: 'is', label: 'has' }, { name: 'any', label: 'has one of (commas)' }, ...EMPTY],
  number: [IS, ...BOUNDS, ...EMPTY],
  date: [...BOUNDS, ...EMPTY],
  boolean: [IS, ...EMPTY],
  id: [{ name: 'any', label: 'is one of (commas)' }],
};

/** The record's own id, which is no field. No field can have this name. */
const ID = '(id)';

const listOf = (text: string) =>
  text
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '');

function comparedValue(type: FieldType, text: string): string | number | boolean {
  if (type === 'number') return text.trim() === '' ? Number.NaN : Number(text);
  if (type === 'boolean') return text.trim() === 'true';
  return text;
}

function conditionOf({ field, operator, value }: Row, fields: Fields): Condition {
  if (field === ID) return { hasId: listOf(value) };
  const type = fields[field] ?? 'keyword';
  if (operator === 'empty' || operator === 'filled') return { field, empty: operator === 'empty' };
  if (operator === 'is') return { field, match: comparedValue(type, value) } as Condition;
  if (operator === 'prefix') return { field, match: { prefix: value } };
  if (operator === 'any' || operator === 'except') return { field, match: { [operator]: listOf(value) } } as Condition;
  return { field, range: { [operator]: comparedValue(type, value) } } as Condition;
}

/** The filter that these rows say; undefined for none. */
export function filterOf(rows: readonly Row[], fields: Fields): Filter | undefined {
  return rows.length === 0 ? undefined : { must: rows.map((row) => conditionOf(row, fields)) };
}

interface FilterFormProps {
  readonly fields: Fields;
  readonly rows: readonly Row[];
  readonly onChange: (rows: readonly Row[]) => void;
}

export function FilterForm({ fields, rows, onChange }: FilterFormProps): JSX.Element {
  const names = [...Object.keys(fields), ID];
  const typeOf = (field: string) => (field === ID ? 'id' : (fields[field] ?? 'keyword'));
  const change = (at: number, part: Partial<Row>) =>
    onChange(rows.map((row, i) => (i === at ? { ...row, ...part } : row)));
  const first = (field: string) => OPERATORS[typeOf(field)][0]!.name;
  return (
    <fieldset class="filter">
      <legend>Filter</legend>
      {rows.map((row, at) => {
        const operators = OPERATORS[typeOf(row.field)];
        const isAlone = operators.find(({ name }) => name === row.operator)?.isAlone;
        return (
          <div class="condition" key={at}>
            <Select
              aria-label={`field of condition ${at + 1}`}
              value={row.field}
              options={names.map((name) => [name, name] as const)}
              onText={(field) => change(at, { field, operator: first(field), value: '' })}
            />
            <Select
              aria-label={`comparison of condition ${at + 1}`}
              value={row.operator}
              options={operators.map(({ name, label }) => [name, label] as const)}
              onText={(operator) => change(at, { operator })}
            />
            {typeOf(row.field) === 'boolean' && !isAlone ? (
              <Select
                aria-label={`value of condition ${at + 1}`}
                value={row.value === 'true' ? 'true' : 'false'}
                options={['true', 'false'].map((value) => [value, value] as const)}
                onText={(value) => change(at, { value })}
              />
            ) : (
              <Input
                aria-label={`value of condition ${at + 1}`}
                value={isAlone ? '' : row.value}
                disabled={isAlone === true}
                placeholder={typeOf(row.field) === 'date' ? '2026-11-16' : ''}
                onText={(value) => change(at, { value })}
              />
            )}
            <Button
              class="quiet"
              aria-label={`remove condition ${at + 1}`}
              onClick={() => onChange(rows.filter((_, i) => i !== at))}
            >
              ✕
            </Button>
          </div>
        );
      })}
      <Button
        class="link"
        onClick={() => onChange([...rows, { field: names[0]!, operator: first(names[0]!), value: '' }])}
      >
        Add a condition
      </Button>
    </fieldset>
  );
}
