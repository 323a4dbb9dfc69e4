import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { parse } from 'csv-parse/sync';
import fc from 'fast-check';
import { quotedCells } from './csv.ts';

/** What csv-parse makes of the same record. */
function reference(text: string, delimiter: string): string[] | undefined {
  try {
    const [cells, ...others] = parse(text, { delimiter, trim: true, relax_column_count: true }) as string[][];
    return others.length === 0 ? cells : undefined;
  } catch {
    return undefined;
  }
}

describe('cells with quotation marks', () => {
  for (const [text, cells] of [
    ['"a"', ['a']],
    ['"a,b",c', ['a,b', 'c']],
    ['a , " b " ,c', ['a', ' b ', 'c']],
    ['"say ""so""",""', ['say "so"', '']],
    ['""""', ['"']],
    ['"two\nlines",', ['two\nlines', '']],
    ['"a"b', undefined],
    ['a"b"', undefined],
    ['"a" "b"', undefined],
    ['"a\n', undefined],
    ['"a"\nb', undefined],
    ['\n"a"', undefined],
    ['a\r,"b"', undefined],
  ] as const)
    it(JSON.stringify(text), () => assert.deepEqual(quotedCells(text, ','), cells));

  for (const delimiter of [',', '\t', ';', ' '])
    it(`are those that csv-parse finds, between ${JSON.stringify(delimiter)}`, () => {
      const character = fc.constantFrom('"', '"', delimiter, delimiter, 'a', 'b', '1', 'é', '🙂');
      const within = fc.array(fc.constantFrom('a', delimiter, ' ', '""', '\n', 'ß'), { maxLength: 8 });
      const spaces = fc.constantFrom('', ' ', '  ').map((text) => (delimiter === ' ' ? '' : text));
      const cell = fc.tuple(spaces, within, spaces).map(([a, text, b]) => `${a}"${text.join('')}"${b}`);
      const wellFormed = fc.array(cell, { minLength: 1, maxLength: 5 }).map((cells) => cells.join(delimiter));
      const any = fc.array(character, { maxLength: 12 }).map((all) => all.join(''));
      fc.assert(
        fc.property(fc.oneof(any, wellFormed), (text) => {
          // Without a mark nothing is asked, and what is empty has no cells there.
          if (text.includes('"')) assert.deepEqual(quotedCells(text, delimiter), reference(text, delimiter));
        }),
        { numRuns: 2000 },
      );
      // What is well formed has cells: the comparison is not one of errors alone.
      fc.assert(fc.property(wellFormed, (text) => quotedCells(text, delimiter) !== undefined));
    });

  it('are found in time that grows with the length', () => {
    const many = `"${'""'.repeat(2 ** 20)}",`.repeat(2);
    assert.deepEqual(
      quotedCells(many, ',')?.map((cell) => cell.length),
      [2 ** 20, 2 ** 20, 0],
    );
  });
});
