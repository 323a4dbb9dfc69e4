import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { boddetiBytes, type Costs, headlines, hersBytes, publishedHeadlines } from './arithmetic.ts';
import { COMMUNICATION, HEADLINES, TABLE_3 } from './published.ts';

const DIMENSIONS = { encoding: 512, compressed: 32, coarse: 16, full: 192 };

describe('headline ratios', () => {
  it("are the paper's, by its own tables", () => {
    const found = publishedHeadlines();
    // By hand: 138 250 / 12 120, 4 500 / 740, 138 250 / 740, 9 000 / 140, 138 250 / 500.
    const expected = { encoding: 11.407, compression: 6.081, both: 186.82, memory: 64.29, stages: 276.5 };
    for (const [name, value] of Object.entries(expected)) {
      const key = name as keyof typeof expected;
      assert.ok(Math.abs(found[key] / value - 1) < 1e-4, `${name}: ${found[key]}`);
      assert.ok(Math.abs(found[key] / HEADLINES[key].ratio - 1) < 0.04, `${name} is not the ratio in the text`);
    }
  });

  it('come out of costs that grow with the dimension as they should', () => {
    const baseline: Costs = { seconds: () => 1000, bytes: () => 640 };
    const system: Costs = { seconds: (d) => d / 4, bytes: (d) => d / 2 };
    assert.deepEqual(headlines(baseline, system, DIMENSIONS, 0.001), {
      encoding: 1000 / 128,
      compression: 6,
      both: 125,
      memory: 40,
      // 4 seconds for everything at 16 dimensions, and 1 for a thousandth by the baseline.
      stages: 200,
    });
    // In one stage at 192 dimensions: 48 seconds.
    assert.equal(headlines(baseline, system, DIMENSIONS).stages, 1000 / 48);
  });
});

describe("the memory of the paper's Table 3", () => {
  /** A ciphertext by the paper's probe: 5.9 MB for 64 of them. Ours takes 91 245 bytes by zlib. */
  const ZLIB = COMMUNICATION.hersProbe / COMMUNICATION.dimension;
  const near = (value: number, gigabytes: number) =>
    assert.ok(Math.abs(value / (gigabytes * 1e9) - 1) < 0.05, `${value}`);

  it('is compressed ciphertexts, half of whose slots are used', () => {
    near(boddetiBytes(TABLE_3.templates, ZLIB), TABLE_3.boddeti.gigabytes);
    for (const d of TABLE_3.dimensions) near(hersBytes(TABLE_3.templates, d, 2048, ZLIB), TABLE_3.hers[d].gigabytes);
    // ⌈10^8 / 2 048⌉ = 48 829, times 32, times 92 187.5 bytes: 144 GB, where the paper has 140.
    assert.equal(hersBytes(1e8, 32, 2048, ZLIB), 48_829 * 32 * 92_187.5);
    // Uncompressed, and with all slots, nothing fits: 13.1 TB for 9, and 102 GB for 140.
    assert.equal(Math.round(boddetiBytes(1e8, 131_072) / 1e9), 13_107);
    assert.equal(Math.round(hersBytes(1e8, 32, 4096, 131_072) / 1e9), 102);
  });

  it('has a ratio of slots over dimensions, so 64 at 32 dimensions means 2 048', () => {
    for (const [slots, ratio] of [
      [2048, 64],
      [4096, 128],
    ])
      assert.ok(Math.abs(boddetiBytes(1e8, ZLIB) / hersBytes(1e8, 32, slots, ZLIB) / ratio - 1) < 1e-4);
  });
});
