// What a person may choose as a file, against what it says.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { openNpy, openRows, vectorOf } from './rows.ts';

function npy(descr: string, shape: string, body: ArrayBufferView, order = 'False'): File {
  const text = `{'descr': '${descr}', 'fortran_order': ${order}, 'shape': (${shape}), }\n`;
  const head = Uint8Array.from([0x93, ...Buffer.from('NUMPY'), 1, 0, text.length & 255, text.length >> 8]);
  return new File([head, text, body as Uint8Array<ArrayBuffer>], 'a.npy');
}

const all = async (file: File) =>
  Array.fromAsync((await openRows(file, { prefix: 'r', fields: { city: 'keyword', age: 'number' } })).records());

describe('.npy', () => {
  const values = [1.5, -2, 0, 0.25, 100, -128];
  for (const [descr, array] of [
    ['<f4', Float32Array.from(values)],
    ['<f8', Float64Array.from(values)],
  ] as const)
    it(`reads rows of ${descr}, in either order of bytes`, async () => {
      const file = await openNpy(npy(descr, '2, 3', array));
      assert.deepEqual([file.rows, file.dimension], [2, 3]);
      assert.deepEqual(
        (await file.read(1, 1)).map((row) => [...row]),
        [[0.25, 100, -128]],
      );
      const swapped = Buffer.from(array.buffer.slice(0));
      if (descr === '<f4') swapped.swap32();
      else swapped.swap64();
      const other = await openNpy(npy(descr.replace('<', '>'), '2, 3', new Uint8Array(swapped)));
      assert.deepEqual(
        (await other.read(0, 2)).map((row) => [...row]),
        [values.slice(0, 3), values.slice(3)],
      );
    });

  it('refuses what it does not read, in words', async () => {
    const array = Float32Array.from(values);
    await assert.rejects(openNpy(new File(['nothing'], 'a.npy')), /not a \.npy/);
    await assert.rejects(openNpy(npy('<f4', '2, 3', array, 'True')), /C order/);
    await assert.rejects(openNpy(npy('<c8', '2, 3', array)), /something else/);
    await assert.rejects(openNpy(npy('<f4', '3, 3', array)), /cut off/);
    assert.equal((await openNpy(npy('<f4', '6,', array))).dimension, 6);
  });
});

describe('rows', () => {
  it('are read where streams cannot be iterated over', async () => {
    const { prototype } = ReadableStream;
    const iterates = Object.getOwnPropertyDescriptor(prototype, Symbol.asyncIterator)!;
    Object.defineProperty(prototype, Symbol.asyncIterator, { value: undefined, configurable: true });
    try {
      assert.deepEqual(await all(new File(['[1]\r\n[2]'], 'a.jsonl')), [
        { id: 'r0', vector: [1] },
        { id: 'r1', vector: [2] },
      ]);
    } finally {
      Object.defineProperty(prototype, Symbol.asyncIterator, iterates);
    }
  });

  it('of .jsonl have ids, payloads, or numbers for ids', async () => {
    const lines = ['{"id":"a","vector":[1,2],"payload":{"city":"x"}}', '', '[3,4]', '{"vector":[5,6]}'];
    assert.deepEqual(await all(new File([lines.join('\n')], 'a.jsonl')), [
      { id: 'a', vector: [1, 2], payload: { city: 'x' } },
      { id: 'r1', vector: [3, 4] },
      { id: 'r2', vector: [5, 6] },
    ]);
    await assert.rejects(all(new File(['[1]\n{'], 'a.jsonl')), /line 2 is not JSON/);
    await assert.rejects(all(new File([Uint8Array.of(0xff)], 'a.jsonl')), TypeError);
    await assert.rejects(all(new File(['{"id":"a"}'], 'a.jsonl')), /line 1 has no vector/);
  });

  it('of .csv: the columns of fields are the payload, the rest is the vector', async () => {
    const text = 'id,v0,city,v1,age\r\n"a ""b"", c",1,"Den, Haag",2,30\r\nd,3,,4,\r\n';
    assert.deepEqual(await all(new File([text], 'a.csv')), [
      { id: 'a "b", c', vector: [1, 2], payload: { city: 'Den, Haag', age: 30 } },
      { id: 'd', vector: [3, 4] },
    ]);
    assert.deepEqual(await all(new File(['1,2\n3,4'], 'a.csv')), [
      { id: 'r0', vector: [1, 2] },
      { id: 'r1', vector: [3, 4] },
    ]);
    await assert.rejects(all(new File(['id,v\na,1\nb'], 'a.csv')), /line 3 has 1 cells/);
    await assert.rejects(all(new File(['id,v\n"a,1'], 'a.csv')), /quotation marks of line 2/);
    await assert.rejects(all(new File(['x'], 'a.txt')), /none of/);
  });
});

it('numbers are read as people paste them', () => {
  assert.deepEqual([...vectorOf('[1, 2.5\n-3e-1]')], [...Float32Array.from([1, 2.5, -0.3])]);
  assert.throws(() => vectorOf('1, two'), /"two" is not a number/);
});
