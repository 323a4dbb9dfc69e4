import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { describe, test } from 'node:test';
import { temporaryFolder } from '../../testing/cli.ts';
import { openRows, type Row, type RowOptions } from './rows.ts';

async function rowsOf(text: string | Uint8Array, options: RowOptions = {}): Promise<Row[]> {
  const sink = new Writable();
  const stdin = Readable.from([Buffer.from(text)]);
  const environment = { cwd: '/', env: {}, stdin, stdout: sink, stderr: sink, signal: new AbortController().signal };
  const file = await openRows(environment, '-', options);
  const rows: Row[] = [];
  for await (const row of file.rows()) rows.push({ ...row, vector: Array.from(row.vector) });
  return rows;
}

const summary = (rows: readonly Row[]) => rows.map(({ id, vector, payload }) => ({ id, vector, payload }));

describe('.csv', () => {
  test('numbers alone are vectors, without a header', async () => {
    assert.deepEqual(
      (await rowsOf('1,2\n3,4.5\n')).map((row) => row.vector),
      [
        [1, 2],
        [3, 4.5],
      ],
    );
  });

  test('a header names the columns; what is neither id nor payload is the vector', async () => {
    const text = '\ufeffid,city,x,y\r\nada,"Delft, NL",1,2\r\nalan,Turin,3,4\r\n';
    assert.deepEqual(summary(await rowsOf(text, { payload: ['city'] })), [
      { id: 'ada', vector: [1, 2], payload: { city: 'Delft, NL' } },
      { id: 'alan', vector: [3, 4], payload: { city: 'Turin' } },
    ]);
  });

  test('a column can hold the whole vector, and ids may be in any column', async () => {
    const text = 'who;vector\n007;"[1, 2.5, -3]"\n8;4 5 6\n';
    assert.deepEqual(summary(await rowsOf(text, { id: 'who', delimiter: ';' })), [
      { id: '007', vector: [1, 2.5, -3], payload: undefined },
      { id: '8', vector: [4, 5, 6], payload: undefined },
    ]);
  });

  test('the first line is data where that is said', async () => {
    assert.equal((await rowsOf('a,1\nb,2\n', { header: false, id: '1' })).length, 2);
  });

  for (const [what, text, options, message] of [
    ['a word among the numbers', 'x,y\n1,2\n3,four\n', {}, /line 3: column "y" is "four", not a number/],
    ['a line of empty cells', 'x\ty\n1\t2\n\t\n3\t4\n', { format: 'tsv' }, /line 3: column "x" is "", not a number/],
    ['an empty cell', 'x,y\n1,\n', {}, /line 2: column "y" is "", not a number/],
    ['lines of different lengths', '1,2\n3\n', {}, /line 2: there are 1 cells, and the first line has 2/],
    ['half a bracket', 'id,vector\na,[1 2\n', {}, /line 2 has a vector that lacks a bracket/],
    ['two columns of one name', 'x,x\n1,2\n', {}, /two columns called "x"/],
    ['a column that is not there', 'x,y\n1,2\n', { id: 'name' }, /no column "name"; it has x, y/],
    ['a quote that never ends', 'x,y\n"1,2\n', {}, /line 2: a quotation mark is not closed/],
    ['millions of quotes', `x,y\n"${'""'.repeat(2 ** 22)}",2\n`, {}, /line 2 is not CSV/],
    ['a quote in the wrong place', 'x,y\n"1"1,2\n', {}, /line 2 is not CSV: its quotation marks are misplaced/],
    ['bytes that are no text', Buffer.from('x,y\n1,\xe9\n', 'latin1'), {}, /line 2 is not text/],
    ['line ends of another age', 'x,y\r1,2\r', {}, /carriage return/],
  ] as const) {
    test(`${what} is an error that says where`, () => assert.rejects(rowsOf(text, options), message));
  }
});

describe('.jsonl', () => {
  test('objects with id, vector and payload; vectors alone; whole numbers as ids', async () => {
    const text = '{"id":"ada","vector":[1,2],"payload":{"n":1}}\n\n[3,4]\n{"id":7,"vector":[5,6]}\n';
    assert.deepEqual(summary(await rowsOf(text)), [
      { id: 'ada', vector: [1, 2], payload: { n: 1 } },
      { id: undefined, vector: [3, 4], payload: undefined },
      { id: '7', vector: [5, 6], payload: undefined },
    ]);
  });

  test('fields of other names', async () => {
    const [row] = await rowsOf('{"name":"ada","v":[1,2],"a":1,"b":2,"c":3}', {
      id: 'name',
      vector: 'v',
      payload: ['a', 'b'],
    });
    assert.deepEqual(summary([row]), [{ id: 'ada', vector: [1, 2], payload: { a: 1, b: 2 } }]);
  });

  for (const [what, text, options, message] of [
    ['no JSON', '{"id":"ada"\n', {}, /line 1 is not JSON/],
    ['no vector', '{"id":"ada"}\n', {}, /line 1 has no field "vector"/],
    ['null in a vector', '[1,2]\n[1,null]\n', {}, /line 2 has a vector that is not a list of numbers/],
    ['half an id', '{"id":0.5,"vector":[1]}\n', {}, /an id that is neither text nor a whole number/],
    ['something else', '{"vector":[1,2]}\n5\n', {}, /line 2 is neither an object nor a vector/],
    ['a field that is not there', '{"vector":[1,2]}\n', { id: 'name' }, /no field "name"/],
  ] as const) {
    test(`${what} is an error that says where`, () => assert.rejects(rowsOf(text, options), message));
  }

  test('bytes that are no text', () => assert.rejects(rowsOf(Buffer.from('{"\xff', 'latin1')), /not UTF-8/));
});

describe('which format it is', () => {
  test('is told from the name before the content', async () => {
    await using folder = await temporaryFolder();
    await writeFile(join(folder.path, 'a.tsv'), 'x\ty\n1\t2\n');
    const sink = new Writable();
    const environment = {
      cwd: folder.path,
      env: {},
      stdin: Readable.from([]),
      stdout: sink,
      stderr: sink,
      signal: new AbortController().signal,
    };
    const file = await openRows(environment, 'a.tsv');
    assert.equal(file.format, 'tsv');
    for await (const row of file.rows()) assert.deepEqual([...row.vector], [1, 2]);
  });

  test('nothing, and nothing anyone knows, are errors', async () => {
    await assert.rejects(rowsOf(''), /standard input is empty/);
    await assert.rejects(rowsOf(Buffer.from([0x80, 0x02, 0x7d])), /in a format that cannot be told/);
  });
});
