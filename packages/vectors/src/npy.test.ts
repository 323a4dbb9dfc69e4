import assert from 'node:assert/strict';
import { open, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import { HersError } from '@hers/scheme';
import fc from 'fast-check';
import { ByteSource, openNpy, readLabels, writeNpy } from './npy.ts';

/**
 * What numpy.save writes for this array, in pieces of some size; the length is not known beforehand
 * unless `sized`.
 */
function saved(header: string, body: Uint8Array, { version = 1, piece = 1000, sized = false } = {}): ByteSource {
  const text = Buffer.from(`${header}\n`, 'latin1');
  const length = Buffer.alloc(version === 1 ? 2 : 4);
  if (version === 1) length.writeUInt16LE(text.length);
  else length.writeUInt32LE(text.length);
  const all = Buffer.concat([Buffer.from('\x93NUMPY', 'latin1'), Buffer.from([version, 0]), length, text, body]);
  return pieces(all, piece, sized);
}

function pieces(all: Uint8Array, piece = 1000, sized = false): ByteSource {
  const chunks = async function* () {
    for (let at = 0; at < all.length; at += piece) yield all.subarray(at, at + piece);
  };
  return new ByteSource('file.npy', chunks(), sized ? all.length : undefined);
}

const header = (descr: string, shape: string, order = 'False') =>
  `{'descr': '${descr}', 'fortran_order': ${order}, 'shape': (${shape}), }`;

async function rowsOf(source: ByteSource): Promise<number[][]> {
  const rows: number[][] = [];
  for await (const vector of (await openNpy(source)).vectors()) rows.push([...vector]);
  return rows;
}

const bytesOf = (array: ArrayBufferView) => new Uint8Array(array.buffer.slice(0) as ArrayBuffer);

describe('reading .npy', () => {
  const values = [1.5, -2, 0, 0.25, 100, -128];
  for (const [descr, array] of [
    ['<f4', Float32Array.from(values)],
    ['<f8', Float64Array.from(values)],
    ['<f2', Float16Array.from(values)],
  ] as const) {
    test(`${descr}, in either order of bytes and in pieces of any size`, async () => {
      const wanted = [values.slice(0, 3), values.slice(3)];
      for (const piece of [1, 7, 1000])
        assert.deepEqual(await rowsOf(saved(header(descr, '2, 3'), bytesOf(array), { piece })), wanted);
      const swapped = Buffer.from(bytesOf(array));
      if (descr === '<f2') swapped.swap16();
      else if (descr === '<f4') swapped.swap32();
      else swapped.swap64();
      assert.deepEqual(await rowsOf(saved(header(descr.replace('<', '>'), '2, 3'), swapped)), wanted);
    });
  }

  test('bytes, signed and unsigned', async () => {
    assert.deepEqual(await rowsOf(saved(header('|i1', '1, 2'), Uint8Array.of(255, 127))), [[-1, 127]]);
    assert.deepEqual(await rowsOf(saved(header('|u1', '2, 1'), Uint8Array.of(255, 127))), [[255], [127]]);
  });

  test('versions 2 and 3, whose headers may be long', async () => {
    for (const version of [2, 3])
      assert.deepEqual(await rowsOf(saved(header('|u1', '1, 2'), Uint8Array.of(3, 4), { version })), [[3, 4]]);
  });

  test('a single vector is one row, and no rows are none', async () => {
    assert.deepEqual(await rowsOf(saved(header('|u1', '3,'), Uint8Array.of(1, 2, 3))), [[1, 2, 3]]);
    assert.deepEqual(await rowsOf(saved(header('<f4', '0, 3'), new Uint8Array(0))), []);
  });

  test('Fortran order is the same where there is one row or one column', async () => {
    assert.deepEqual(await rowsOf(saved(header('|u1', '3, 1', 'True'), Uint8Array.of(1, 2, 3))), [[1], [2], [3]]);
  });

  test('what is written is read again', async () => {
    const path = join(tmpdir(), `hers-${process.pid}.npy`);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.tuple(fc.float(), fc.float(), fc.float()), { maxLength: 40 }), async (rows) => {
        const file = await open(path, 'w');
        assert.equal(
          await writeNpy(
            file,
            3,
            rows.map((row) => Float32Array.from(row)),
          ),
          rows.length,
        );
        await file.close();
        const all = await readFile(path);
        assert.equal(all.length, 128 + rows.length * 12);
        assert.deepEqual(await rowsOf(pieces(all, 50, true)), rows);
      }),
      { numRuns: 20 },
    );
    await rm(path);
  });
});

describe('labels', () => {
  const values = [0, 7, -3, 2 ** 31 - 1];

  test('of 32 and 64 bits, as a list or a column', async () => {
    for (const shape of ['4,', '4, 1']) {
      assert.deepEqual([...(await readLabels(saved(header('<i4', shape), bytesOf(Int32Array.from(values)))))], values);
      const long = bytesOf(BigInt64Array.from(values, BigInt));
      assert.deepEqual([...(await readLabels(saved(header('<i8', shape), long, { piece: 5 })))], values);
    }
  });

  test('what is not a list of whole numbers is refused', async () => {
    const long = bytesOf(BigInt64Array.of(2n ** 40n));
    await assert.rejects(readLabels(saved(header('<i8', '1,'), long)), /beyond 32 bits in place 0/);
    await assert.rejects(readLabels(saved(header('<i4', '2, 2'), new Uint8Array(16))), /a table where a list/);
    await assert.rejects(readLabels(saved(header('<f4', '4,'), new Uint8Array(16))), /int32 or int64.*astype/);
    await assert.rejects(readLabels(saved(header('<i4', '4,'), new Uint8Array(15))), /truncated/);
  });
});

describe('files that are refused, with what to do about it', () => {
  const fails = (source: ByteSource, message: RegExp) =>
    assert.rejects(rowsOf(source), (error) => {
      assert.ok(error instanceof HersError);
      assert.equal(error.code, 'MALFORMED');
      assert.match(error.message, message);
      return true;
    });
  const six = new Uint8Array(6);

  test('Fortran order', () => fails(saved(header('|u1', '2, 3', 'True'), six), /in Fortran order.*ascontiguousarray/));

  test('other types of numbers', async () => {
    for (const descr of ['<i4', '<c8', '<U10', '|O', '|b1', '<f16'])
      await fails(saved(header(descr, '2, 3'), six), /float32, float64, float16, int8 or uint8.*astype/);
    await fails(saved(`{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }`, six), /a structure/);
  });

  test('other shapes', async () => {
    await fails(saved(header('|u1', '1, 2, 3'), six), /3 dimensions.*reshape/);
    await fails(saved(header('|u1', ''), six), /0 dimensions/);
    await fails(saved(header('|u1', '6, 0'), new Uint8Array(0)), /no vectors/);
    await fails(saved(header('<f4', '99999999999999999999, 2'), six), /too large to be true/);
  });

  test('truncated and overlong files, found before the first row where the length is known', async () => {
    const short = () =>
      fails(saved(header('|u1', '3, 3'), six), /truncated: it should hold 3 rows and ends within row 2/);
    await short();
    await fails(saved(header('|u1', '1, 3'), six), /more bytes than its header says/);
    await assert.rejects(openNpy(saved(header('|u1', '3, 3'), six, { sized: true })), /truncated/);
    await assert.rejects(openNpy(saved(header('|u1', '1, 3'), six, { sized: true })), /more bytes/);
  });

  test('garbage, at every length', async () => {
    await fails(pieces(Buffer.from('not an array at all')), /is not a .npy file/);
    const whole = Buffer.from('\x93NUMPY\x01\x00\x10\x00{garbage', 'latin1');
    for (let length = 0; length <= whole.length; length++)
      await fails(pieces(whole.subarray(0, length)), /not a .npy file|truncated|cannot be read/);
    await fails(pieces(Buffer.from('\x93NUMPY\x09\x00\x10\x00', 'latin1')), /version 9/);
    await fails(pieces(Buffer.from('\x93NUMPY\x02\x00\xff\xff\xff\xff', 'latin1')), /too long/);
  });
});
