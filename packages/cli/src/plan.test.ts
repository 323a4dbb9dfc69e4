// Which profile is recommended, and what the recommendation is computed from.

import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { plan } from '@hers/scheme';
import { hers, Prepared } from '../testing/cli.ts';
import { deviation, neighbourGaps, swapped } from './commands/plan.ts';
import { EXIT } from './exit.ts';

let prepared: Prepared;
before(async () => {
  prepared = await Prepared.make(async () => {});
});
after(() => prepared.remove());

/** Standard normal numbers that repeat. */
function normals(): () => number {
  let state = 42;
  const uniform = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return (state + 0.5) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** Pairs of neighbours, and a third that is behind the second by about `gap`. */
function triples(count: number, dimension: number, gap: number): string {
  const normal = normals();
  const lines: string[] = [];
  for (let i = 0; i < count; i++) {
    const centre = Array.from({ length: dimension }, normal);
    for (const step of [0, 0.3, 0.3 + gap])
      lines.push(JSON.stringify({ id: `${i} ${step}`, vector: moved(centre, step) }));
  }
  return lines.join('\n');
}

/** Turned by an angle towards the last axis. */
function moved(vector: readonly number[], angle: number): number[] {
  const length = Math.hypot(...vector);
  return vector.map((x, i) => Math.cos(angle) * x + (i === vector.length - 1 ? Math.sin(angle) * length : 0));
}

describe('hers plan', () => {
  const recommend = async (lines: string, ...args: string[]) => {
    const folder = await prepared.copy();
    await writeFile(join(folder, 'vectors.jsonl'), lines);
    const { exit, out, err } = await hers(folder, ['plan', 'vectors.jsonl', ...args, '--json']);
    assert.equal(exit, EXIT.done, err);
    return JSON.parse(out);
  };

  it('takes the cheapest profile that keeps first matches', async () => {
    assert.equal((await recommend(triples(30, 64, 0.4))).recommended, 'small');
    assert.equal((await recommend(triples(30, 64, 0.015))).recommended, 'compact');
    assert.equal((await recommend(triples(30, 64, 0.0002))).recommended, 'exact');
  });
  it('does not take small where it is no smaller than the vectors', async () => {
    const { recommended, profiles } = await recommend(triples(30, 16, 0.4));
    assert.equal(recommended, 'compact');
    assert.ok(profiles[0].ofFloats > 1);
  });
  it('counts the canaries, and with --integrity strong the checksum canaries', async () => {
    const lines = triples(30, 64, 0.4);
    const sizes = async (...args: string[]) => {
      const { profiles } = await recommend(lines, ...args);
      return profiles.map(({ bytesPerVector }: { bytesPerVector: number }) => bytesPerVector);
    };
    // Rows of 3, 4, 8 and 4 bytes a slot, for the records of a full block.
    const of = (records: readonly number[]) => [
      (70 * 3 * 2048) / records[0]!,
      (68 * 4 * 2048) / records[1]!,
      (67 * 8 * 4096) / records[2]!,
      (69 * 4 * 4096) / 4080,
    ];
    assert.deepEqual(await sizes(), of([2032, 2040, 4088]));
    assert.deepEqual(await sizes('--integrity', 'strong'), of([1912, 2008, 4088]));
  });
  it('follows metric, loss and sample', async () => {
    const lines = triples(30, 64, 0.015);
    const loose = await recommend(lines, '--loss', '0.5', '--sample', '60');
    assert.equal(loose.recommended, 'small');
    assert.deepEqual([loose.vectors, loose.of], [60, 90]);
    for (const metric of ['dot', 'euclidean']) {
      const { profiles } = await recommend(lines, '--metric', metric);
      // The last is open, whose error is between those of small and compact.
      const changed: number[] = profiles.map((each: { changed: number }) => each.changed);
      assert.deepEqual(
        changed.slice(0, 3),
        changed.slice(0, 3).toSorted((a, b) => b - a),
      );
      assert.ok(changed[3]! <= changed[0]! && changed[3]! >= changed[2]!);
    }
  });
  it('prints a table with its choice', async () => {
    const folder = await prepared.copy();
    await writeFile(join(folder, 'vectors.jsonl'), triples(10, 64, 0.4));
    const { exit, out, err } = await hers(folder, ['plan', 'vectors.jsonl']);
    assert.equal(exit, EXIT.done, err);
    assert.match(out, /^small.*recommended\ncompact.*\nexact.*\nopen.*\n$/);
  });
});

describe('the computation behind it', () => {
  it('finds the gaps between the two nearest, by hand', () => {
    const rows = [
      [1, 0],
      [0.8, 0.6],
      [0.6, 0.8],
      [0, 2],
    ].map((row) => Float32Array.from(row));
    const expected = { cosine: [0.2, 0.16, 0.16, 0.2], dot: [0.2, 0.24, 0.64, 0.4], euclidean: [0.4, 0.32, 0.72, 0.8] };
    for (const metric of ['cosine', 'dot', 'euclidean'] as const) {
      const gaps = neighbourGaps(rows, metric);
      gaps.forEach(({ gap }, i) => {
        assert.ok(Math.abs(gap - expected[metric][i]) < 1e-6, `${metric} ${i}: ${gap}`);
      });
    }
    assert.deepEqual(
      neighbourGaps(rows, 'euclidean').map(({ nearest }) => Number(nearest.toFixed(6))),
      [0.4, 0.08, 0.08, 1.8],
    );
    const copies = [rows[0], rows[0], rows[0]];
    assert.deepEqual(neighbourGaps(copies, 'cosine'), []);
  });
  it('rounding errs as much at a distance as it does in trials', () => {
    const normal = normals();
    const made = plan({ dimension: 64, metric: 'euclidean', normBound: 3, profile: 'exact' });
    const step = 3 / made.steps;
    // Farther apart than a step in each coordinate, so that errors are independent.
    for (const length of [0.1, 0.3, 3]) {
      const errors = Array.from({ length: 3000 }, () => {
        const p = Array.from({ length: 64 }, () => normal() / 8);
        const way = Array.from({ length: 64 }, normal);
        const norm = Math.hypot(...way);
        const q = p.map((x, k) => x + (way[k] * length) / norm);
        const rounded = (x: number) => step * Math.round(x / step);
        return p.reduce((sum, x, k) => sum + (rounded(x) - rounded(q[k])) ** 2, 0) - length ** 2;
      });
      const mean = errors.reduce((sum, x) => sum + x, 0) / errors.length;
      const found = Math.sqrt(errors.reduce((sum, x) => sum + (x - mean) ** 2, 0) / errors.length);
      const expected = deviation(made, length ** 2);
      assert.ok(Math.abs(found / expected - 1) < 0.08, `${length}: ${found}, not ${expected}`);
    }
  });
  it('a gap is outweighed as often as it is in trials', () => {
    const normal = normals();
    for (const gap of [0, 0.5, 1, 2, 3]) {
      let changed = 0;
      for (let i = 0; i < 200_000; i++) if (normal() - normal() > gap) changed++;
      assert.ok(Math.abs(changed / 200_000 - swapped(gap, 1)) < 0.004, `${gap}: ${changed / 200_000}`);
    }
  });
});
