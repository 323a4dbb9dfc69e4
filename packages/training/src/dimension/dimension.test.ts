import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { CompressError } from '@hers/compress';
import { sphere, subspace, swissRoll, uniform } from '../../testing/manifolds.ts';
import { likelihoodDimension, recommendedDimensions, twoNearestDimension } from './estimates.ts';
import {
  fitSphere,
  graphDistanceDimension,
  largestComponent,
  neighbourGraph,
  ShortestPaths,
} from './graph-distance.ts';
import { type Neighbours, nearest } from './nearest.ts';

const between = (value: number, low: number, high: number, what: string) =>
  assert.ok(value >= low && value <= high, `${what}: ${value} is not between ${low} and ${high}`);

describe('nearest neighbours', () => {
  for (const distance of ['euclidean', 'angle'] as const) {
    test(`are those of the obvious search, by ${distance}`, async () => {
      const [count, dimension, k] = [601, 7, 9];
      const vectors = subspace(count, 4, dimension, 0.1).map((x) => x * 3 + 1);
      const found = await nearest(vectors, dimension, k, { distance });
      for (let i = 0; i < count; i++) {
        const a = vectors.subarray(i * dimension, (i + 1) * dimension);
        const all = Array.from({ length: count }, (_, j) => {
          const b = vectors.subarray(j * dimension, (j + 1) * dimension);
          const cosine = a.reduce((sum, x, c) => sum + x * b[c], 0) / (Math.hypot(...a) * Math.hypot(...b));
          const far = distance === 'angle' ? Math.acos(Math.min(1, cosine)) : Math.hypot(...a.map((x, c) => x - b[c]));
          return { j, far };
        })
          .filter(({ j }) => j !== i)
          .sort((x, y) => x.far - y.far);
        for (let n = 0; n < k; n++) {
          assert.equal(found.index[i * k + n], all[n].j);
          assert.ok(Math.abs(found.distance[i * k + n] - all[n].far) < 1e-5);
        }
      }
    });
  }

  test('copies of a point are at distance 0, and do not hide each other', async () => {
    const vectors = Float32Array.from([1, 2, 1, 2, 1, 2, 5, 5]);
    const { index, distance } = await nearest(vectors, 2, 2);
    assert.deepEqual([...index.subarray(0, 6)], [1, 2, 0, 2, 0, 1]);
    assert.deepEqual([...distance.subarray(0, 6)], [0, 0, 0, 0, 0, 0]);
  });

  test('what cannot be is refused in a sentence', async () => {
    const vectors = new Float32Array(12).map((_, i) => i);
    await assert.rejects(nearest(vectors, 5, 1), /12 numbers are not whole vectors of dimension 5/);
    await assert.rejects(nearest(vectors, 3, 4), /k is a whole number from 1 to 3/);
    await assert.rejects(nearest(vectors.with(7, Number.NaN), 3, 1), /vector 2 holds NaN in place 1/);
    await assert.rejects(nearest(new Float32Array(6), 2, 1, { distance: 'angle' }), /vector 0 is zero/);
  });

  test('can be stopped', async () => {
    await assert.rejects(nearest(sphere(600, 2, 3), 3, 2, { signal: AbortSignal.abort() }), { name: 'AbortError' });
  });
});

describe('distances along the graph', () => {
  test('are those of Floyd and Warshall', async () => {
    const count = 120;
    const neighbours = await nearest(sphere(count, 3, 5), 5, 6);
    const graph = neighbourGraph(neighbours, 4);
    const table = Array.from({ length: count }, (_, i) =>
      new Float64Array(count).fill(Number.POSITIVE_INFINITY).with(i, 0),
    );
    for (let i = 0; i < count; i++)
      for (let n = 0; n < 4; n++) {
        const [j, far] = [neighbours.index[i * 6 + n], neighbours.distance[i * 6 + n]];
        table[i][j] = table[j][i] = far;
      }
    for (let via = 0; via < count; via++)
      for (const row of table) for (let j = 0; j < count; j++) row[j] = Math.min(row[j], row[via] + table[via][j]);
    const paths = new ShortestPaths(graph);
    for (let i = 0; i < count; i++)
      for (const [j, far] of paths.from(i).entries())
        assert.ok(far === table[i][j] || Math.abs(far - table[i][j]) < 1e-12, `${i} to ${j}: ${far}, ${table[i][j]}`);
  });

  test('stay within the largest part of a graph that falls apart', () => {
    const neighbours: Neighbours = {
      count: 5,
      k: 1,
      index: Int32Array.of(1, 0, 3, 4, 3),
      distance: Float64Array.of(1, 1, 2, 1, 1),
    };
    const graph = neighbourGraph(neighbours, 1);
    assert.deepEqual([...largestComponent(graph)], [2, 3, 4]);
    assert.deepEqual(
      [...new ShortestPaths(graph).from(2)],
      [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY, 0, 2, 3],
    );
  });
});

describe('the fit of a sphere', () => {
  /** Angles between random points of a sphere, by inversion of their own distribution. */
  function angles(m: number, count: number): Float64Array {
    const random = uniform(m);
    return new Float64Array(count).map(() => {
      for (;;) {
        const r = Math.PI * random();
        if (random() < Math.sin(r) ** (m - 1)) return r;
      }
    });
  }

  for (const m of [2, 5, 16, 40]) {
    test(`gives back ${m}, smoothed or not`, () => {
      const distances = angles(m, 300_000);
      for (const blur of [0, 0.1]) between(fitSphere(distances, { blur }).dimension!, 0.96 * m, 1.04 * m, `${blur}`);
    });
  }

  test('is refused where all distances are the same', () => {
    for (const value of [0, 1]) {
      const { dimension, refusal } = fitSphere(new Float64Array(100).fill(value));
      assert.equal(dimension, undefined);
      assert.match(refusal!, /nearly all the same/);
    }
  });

  test('leaves out what is no longer than an edge, and is refused where that is all', () => {
    const distances = angles(5, 300_000);
    between(fitSphere(distances, { longestEdge: 1 }).dimension!, 4.8, 5.2, 'from 1 on');
    const { dimension, refusal, mode } = fitSphere(distances, { longestEdge: 1.6 });
    assert.equal(dimension, undefined);
    between(mode, 1.55, 1.59, 'mode');
    assert.match(refusal!, /1.5[5-9], is no longer than its longest edge, 1.60/);
    assert.match(fitSphere(distances, { longestEdge: 1.53 }).refusal!, /too much alike: only [0-4] of 200 bins/);
  });

  test('is refused where the most frequent distance is far from the mean', () => {
    const random = uniform(3);
    // Many short distances, and a few that are ever longer.
    const distances = new Float64Array(100_000).map((_, i) => (i % 4 ? 1 + 9 * random() : 1 + 0.1 * random()));
    assert.match(fitSphere(distances).refusal!, /more than a standard deviation/);
  });

  test('is refused where two peaks are as likely as one', () => {
    const near = angles(16, 100_000);
    const distances = Float64Array.from([...near, ...near.map((r) => r + 1.5), ...near.map((r) => r + 1.5)]);
    assert.match(fitSphere(distances).refusal!, /more than one peak/);
  });
});

test('dimensions to try are the largest estimate and its multiples, while they save something', () => {
  assert.deepEqual(recommendedDimensions([9.5, 15.9, 19.2], 128), [24, 48, 96]);
  assert.deepEqual(recommendedDimensions([25.7, 64.7, 56.8], 128), [72]);
  assert.deepEqual(recommendedDimensions([25.7, 98, 56.8], 128), []);
  assert.deepEqual(recommendedDimensions([], 128), []);
});

describe('manifolds of known dimension', () => {
  const cases: [string, Float32Array, number, number, { graph: number[]; two: number[]; likelihood: number[] }][] = [
    ['a sphere of 2', sphere(1500, 2, 9), 9, 2, { graph: [1.9, 2.2], two: [1.85, 2.15], likelihood: [1.9, 2.1] }],
    ['a sphere of 5', sphere(2000, 5, 20), 20, 5, { graph: [4.8, 6.1], two: [4.6, 5.4], likelihood: [4.6, 5.2] }],
    ['a sphere of 12', sphere(2500, 12, 40), 40, 12, { graph: [11, 14], two: [10, 12.5], likelihood: [9, 12] }],
    ['a Swiss roll', swissRoll(1500), 3, 2, { graph: [1.6, 2.2], two: [1.8, 2.2], likelihood: [1.85, 2.1] }],
    ['a plane of 8', subspace(2000, 8, 40), 40, 8, { graph: [7, 9], two: [7, 9], likelihood: [7, 8.5] }],
    // Noise is what two neighbours see first; the graph looks farther.
    [
      'a plane of 5 in noise',
      subspace(2000, 5, 20, 0.1),
      20,
      5,
      { graph: [4.8, 5.8], two: [5, 11], likelihood: [5, 8] },
    ],
  ];
  for (const [name, vectors, dimension, , wanted] of cases) {
    test(name, async () => {
      const neighbours = await nearest(vectors, dimension, 15);
      const graph = graphDistanceDimension(neighbours, { sources: 150 });
      between(graph.dimension!, wanted.graph[0], wanted.graph[1], 'graph');
      assert.equal(graph.refusal, undefined);
      assert.equal(graph.connected, 1);
      assert.ok(graph.longestEdge < graph.mode && graph.residual! < 0.1, `${graph.residual}`);
      between(twoNearestDimension(neighbours), wanted.two[0], wanted.two[1], 'two nearest');
      between(likelihoodDimension(neighbours), wanted.likelihood[0], wanted.likelihood[1], 'likelihood');
    });
  }

  test('do not change when points are repeated, moved and scaled', async () => {
    const vectors = sphere(800, 3, 6);
    const twice = new Float32Array(2 * vectors.length);
    twice.set(vectors);
    twice.set(vectors.subarray(0, 60), vectors.length);
    const [a, b] = [
      await nearest(vectors, 6, 10),
      await nearest(
        twice.subarray(0, vectors.length + 60).map((x) => 7 * x + 1),
        6,
        10,
      ),
    ];
    assert.ok(Math.abs(twoNearestDimension(a) - twoNearestDimension(b)) < 0.1);
    assert.ok(Math.abs(likelihoodDimension(a) - likelihoodDimension(b)) < 0.1);
  });

  describe('what is no manifold is refused by the graph', () => {
    const intrinsic = 8;
    const [count, dimension] = [1500, 24];
    /** Directions on a sphere of 8 dimensions, with lengths that are log-normal. */
    const longAndShort = (deviation: number) => {
      const gauss = subspace(count, 1, 1, 0, 5);
      const scale = Math.sqrt(gauss.reduce((sum, x) => sum + x * x, 0) / count);
      const directions = sphere(count, intrinsic, dimension);
      return directions.map((x, i) => x * Math.exp((deviation * gauss[Math.floor(i / dimension)]) / scale));
    };

    test('log-normal lengths, by distance; not by angle', async () => {
      const vectors = longAndShort(1);
      const byDistance = await nearest(vectors, dimension, 9);
      for (const k of [4, 9]) {
        const { dimension: found, refusal, residual } = graphDistanceDimension(byDistance, { k, sources: 100 });
        assert.deepEqual([found, residual], [undefined, undefined]);
        assert.match(refusal!, /no longer than its longest edge/);
      }
      const byAngle = graphDistanceDimension(await nearest(vectors, dimension, 9, { distance: 'angle' }));
      between(byAngle.dimension!, 7, 11, 'by angle');
    });

    test('a dense core with a sparse halo', async () => {
      const core = subspace(count, 16, dimension, 0, 7);
      // Every fifth is twenty times as far out; or all are, by ever more.
      const halo = core.map((x, i) => (Math.floor(i / dimension) % 5 === 0 ? 20 * x : x));
      const tail = core.map((x, i) => x * (1 - Math.floor(i / dimension) / count) ** -1);
      for (const vectors of [halo, tail]) {
        const neighbours = await nearest(vectors, dimension, 9);
        const { dimension: found, refusal } = graphDistanceDimension(neighbours, { sources: 100 });
        assert.equal(found, undefined, `${found}`);
        assert.match(refusal!, /longest edge|more than one peak|standard deviation/);
        between(twoNearestDimension(neighbours), 10, 20, 'two nearest');
      }
    });

    test('clouds that do not hang together', async () => {
      const clouds = sphere(600, 2, 4).map((x, i) => x + 100 * (Math.floor(i / 4) % 3));
      const { connected, refusal, dimension: found } = graphDistanceDimension(await nearest(clouds, 4, 9));
      assert.equal(found, undefined);
      between(connected, 0.3, 0.4, 'connected');
      assert.match(refusal!, /part of a graph of 9 neighbours has 200 of 600 vectors/);
    });
  });

  test('too little is refused in a sentence', async () => {
    const same = await nearest(new Float32Array(300).fill(1), 3, 5);
    assert.throws(() => twoNearestDimension(same), /too few points differ/);
    assert.throws(() => likelihoodDimension(same), /no point has neighbours at different distances/);
    const few = await nearest(sphere(30, 2, 3), 3, 5);
    assert.match(graphDistanceDimension(few).refusal!, /part of a graph of 5 neighbours has 30 of 30 vectors/);
    assert.match(graphDistanceDimension(same).refusal!, /nearly all the same|has \d+ of 100 vectors/);
    assert.throws(() => graphDistanceDimension(few, { k: 6 }), /there are 5 neighbours of each point, not 6/);
    assert.throws(() => likelihoodDimension(few, 2), CompressError);
    assert.throws(() => twoNearestDimension({ ...few, k: 1 }), CompressError);
  });
});
