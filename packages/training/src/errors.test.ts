import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CompressError, type CompressErrorCode, load } from '@hers/compress';
import { synthetic } from '../testing/identities.ts';
import { fitSphere, graphDistanceDimension } from './dimension/graph-distance.ts';
import { nearest } from './dimension/nearest.ts';
import { type FitOptions, fit, type MethodName } from './fit.ts';

const { vectors, labels } = synthetic({ classes: 6, each: 3, dimension: 8 });

async function refused(code: CompressErrorCode, pattern: RegExp, work: () => Promise<unknown>): Promise<void> {
  await assert.rejects(work, (error) => {
    assert.ok(error instanceof CompressError, String(error));
    assert.equal(error.code, code);
    assert.match(error.message, pattern);
    return true;
  });
}

const attempt = (options: object, method = 'lda', v = vectors, l: ArrayLike<number | string> = labels) =>
  fit(method as MethodName, v, l, { dimension: 2, ...options } as FitOptions);

test('bad input is refused with a code and a sentence, before a thread is started', async () => {
  const holed = vectors.slice();
  holed[13] = Number.NaN;
  await refused('INVALID_VECTOR', /Vector 1 .*not a finite number/, () => attempt({}, 'lda', holed));
  const empty = vectors.slice().fill(0, 8, 16);
  await refused('INVALID_VECTOR', /Vector 1 has length zero/, () => attempt({}, 'pca', empty));
  await refused('INVALID_LABELS', /17 labels/, () =>
    attempt({ inputDimension: 8 }, 'lda', vectors, labels.subarray(1)),
  );
  await refused('INVALID_LABELS', /cannot be shared/, () => attempt({}, 'lda', vectors, labels.subarray(1)));
  await refused('INVALID_LABELS', /same label/, () => attempt({}, 'lda', vectors, new Int32Array(18)));
  await refused('INVALID_LABELS', /No two vectors/, () => attempt({}, 'lda', vectors, [...labels.keys()]));
  await refused('INVALID_LABELS', /there are none/, () =>
    fit('lda', vectors, undefined, { dimension: 2, inputDimension: 8 }),
  );
  await refused('INVALID_LABELS', /label of vector 0/, () =>
    attempt({}, 'lda', vectors, new Float32Array(18).fill(Number.NaN)),
  );
  await refused('INVALID_ARGUMENT', /inputDimension/, () => fit('pca', vectors, undefined, { dimension: 2 }));
  for (const inputDimension of [0, -8, 1.5])
    await refused('INVALID_ARGUMENT', /inputDimension is .*a whole number above 0/, () =>
      fit('pca', vectors, undefined, { dimension: 2, inputDimension }),
    );
  await refused('INVALID_VECTOR', /no vectors/, () => attempt({}, 'pca', new Float32Array(), []));
  await refused('INVALID_ARGUMENT', /cannot be compressed to 9/, () => attempt({ dimension: 9 }));
  await refused('INVALID_ARGUMENT', /dimension is a whole number/, () => attempt({ dimension: 2.5 }));
  await refused('INVALID_ARGUMENT', /no method "umap"; there are .*pca, lda/, () => attempt({}, 'umap'));
  await refused('INVALID_ARGUMENT', /no method "constructor"/, () => attempt({}, 'constructor'));
  await refused('INVALID_ARGUMENT', /^fit has no option "dimensions"; did you mean dimension\?$/, () =>
    attempt({ dimensions: 2 }),
  );
  await refused('INVALID_ARGUMENT', /no setting "shrink"; there are: shrinkage/, () =>
    attempt({ settings: { shrink: 1 } }),
  );
  await refused('INVALID_ARGUMENT', /shrinkage is a number from 0 to 1/, () => attempt({ settings: { shrinkage: 7 } }));
  await refused('ABORTED', /interrupted/, () => attempt({ signal: AbortSignal.abort() }));
});

test('an estimate of the dimension refuses options that it does not have', async () => {
  const misspelt = <T>(options: object) => options as T;
  await refused('INVALID_ARGUMENT', /^nearest has no option "distances"; did you mean distance\?$/, () =>
    nearest(vectors, 8, 2, misspelt({ distances: 'angle' })),
  );
  const neighbours = await nearest(vectors, 8, 2);
  await refused(
    'INVALID_ARGUMENT',
    /^graphDistanceDimension has no option "source"; did you mean sources\?$/,
    async () => graphDistanceDimension(neighbours, misspelt({ source: 3 })),
  );
  await refused('INVALID_ARGUMENT', /^fitSphere has no option "blurr"; did you mean blur\?$/, async () =>
    fitSphere(neighbours.distance, misspelt({ blurr: 3 })),
  );
});

test('a compressor refuses vectors that are not of its kind', async () => {
  const compressor = await fit('pca', vectors, labels, { dimension: 2 });
  await refused('INVALID_VECTOR', /vectors of 8 dimensions/, () => compressor.transform(vectors.subarray(1)));
  await refused('INVALID_VECTOR', /Vector 0/, () => compressor.transform([Number.NaN, 0, 0, 0, 0, 0, 0, 1]));
  assert.equal((await compressor.transform([])).length, 0);
});

test('bytes that are no model, or a damaged one, are an error and never a crash', async () => {
  const model = (await fit('pca', vectors, labels, { dimension: 2 })).save();
  await refused('MALFORMED', /no ONNX model/, () => load(new Uint8Array()));
  await refused('MALFORMED', /model/, () => load(new TextEncoder().encode('<!doctype html><title>404</title>')));
  for (let length = 1; length < model.length; length += 7)
    await assert.rejects(load(model.subarray(0, length)), CompressError, `torn after ${length} bytes`);
  let opened = 0;
  for (let at = 0; at < model.length; at++) {
    const damaged = model.slice();
    damaged[at] ^= 1 + (at % 255);
    try {
      await load(damaged); // a flipped bit of a weight cannot be seen here; the client's seal sees it
      opened++;
    } catch (error) {
      assert.ok(error instanceof CompressError, `byte ${at}: ${(error as Error).stack}`);
    }
  }
  assert.ok(opened < model.length);
});
