// The tag of a block: what it is, that it adds up, and that nothing but the block itself has it
// (README.md §6).

import assert from 'node:assert/strict';
import { createCipheriv } from 'node:crypto';
import { describe, it } from 'node:test';
import { modInverse } from '@hers/ring';
import fc from 'fast-check';
import { derivedSlowly } from '../../testing/derivation.node.ts';
import { randomVectors, repeatable } from '../../testing/samples.ts';
import { addBlocks, type Block, blockMask, decodeBlock, encodeBlock } from '../block.ts';
import { HersError } from '../errors.ts';
import { type ParameterSet, polyWords, ringOf } from '../parameters.ts';
import { type Plan, type PlanRequest, plan } from '../plan.ts';
import { addTags, authenticate, sameTag, tagBytes } from './authenticator.ts';
import { decryptBlock } from './decrypt.ts';
import { encryptBlock, encryptBlockFrom } from './encrypt.ts';
import { CollectionKey, MasterSeed } from './key.ts';

const small = { parameters: 'insecure_n_64_logq_30', allowInsecure: true, edition: 1 } as const;
const smallPair = {
  parameters: 'insecure_n_64_logq_30_30',
  allowInsecure: true,
  profile: 'exact',
  edition: 1,
} as const;
const collectionId = new Uint8Array(16).fill(1);
const masterBytes = new Uint8Array(32).fill(7);
const hex = (bytes: Uint8Array) => Buffer.from(bytes).toString('hex');
const refused = (code: string) => (error: unknown) => error instanceof HersError && error.code === code;

const keyFor = (request: PlanRequest, epoch = 0, seed = masterBytes): CollectionKey =>
  MasterSeed.from(seed).collectionKey(plan(request), collectionId, epoch);

/** All four parameter sets, and what the block of each looks like in most tests. */
const REQUESTS: Readonly<Record<string, PlanRequest>> = {
  'small compact': { ...small, dimension: 5 },
  'small exact': { ...smallPair, dimension: 5, metric: 'euclidean' },
  compact: { dimension: 6, metric: 'dot', edition: 1 },
  exact: { dimension: 4, profile: 'exact', edition: 1 },
};

function blockOf(key: CollectionKey, label: string, count: number, first = 0): Block {
  const vectors = randomVectors(label, count, key.plan.dimension, 0.9);
  return encryptBlockFrom(repeatable(label), key, vectors, { first });
}

/** A block of words that no floating point takes part in: word k is a multiple of k, reduced. */
function patterned({ plan: p, keyId }: CollectionKey): Block {
  const { parameters, width, galleryScale } = p;
  const words = polyWords(parameters);
  const residue = (_: unknown, k: number) =>
    Number((BigInt(k + 1) * 0x9e3779b97f4a7c15n) % BigInt(parameters.primes[Math.floor((k % words) / parameters.n)]));
  const rows = Uint32Array.from({ length: width * words }, residue);
  const mask = { seed: new Uint8Array(32).fill(9) };
  return {
    parameters,
    keyId,
    blockId: collectionId,
    width,
    first: 0,
    count: 1,
    additions: 1,
    galleryScale,
    mask,
    rows,
  };
}

/** The mask as the polynomial itself. */
const withResidues = (block: Block) => ({ ...block, mask: { residues: blockMask(block) } });

// — the slow and obvious version, from docs/formats.md and Node's own HKDF and ChaCha20 —

const authenticatorSeed = (p: Plan, epoch: number) =>
  derivedSlowly(masterBytes, 'block authenticator', { plan: p, collectionId, epoch });

function slowUniform(seed: Uint8Array, domain: number, index: number, third: number, p: number, n: number): bigint[] {
  const nonce = Buffer.from(Uint32Array.of(0, domain, index, third).buffer); // the counter comes first
  const stream = createCipheriv('chacha20', seed, nonce).update(new Uint8Array(4 * n + 4096));
  const words = Array.from({ length: n + 1024 }, (_, i) => stream.readUInt32LE(4 * i) & (2 ** 30 - 1));
  return words
    .filter((word) => word < p)
    .slice(0, n)
    .map(BigInt);
}

function slowTag(p: Plan, epoch: number, block: Block): Uint8Array {
  const { n, primes } = p.parameters;
  const seed = authenticatorSeed(p, epoch);
  const words = polyWords(p.parameters);
  const out = Buffer.alloc(16 * primes.length);
  primes.forEach((prime, k) => {
    const rows = Array.from({ length: p.width }, (_, i) =>
      Array.from(block.rows.subarray(i * words + k * n, i * words + (k + 1) * n), BigInt),
    );
    const { mask } = block;
    if ('seed' in mask) rows.push(slowUniform(mask.seed, 1, 0, k, prime, n));
    else rows.push(Array.from(mask.residues.subarray(k * n, (k + 1) * n), BigInt));
    for (let c = 0; c < 4; c++) {
      const v = slowUniform(seed, 7, c, k, prime, n);
      let tag = 0n;
      rows.forEach((row, i) => {
        const u = slowUniform(seed, 6, 4 * Math.floor(i / n) + c, k, prime, n)[i % n];
        row.forEach((word, j) => {
          tag += u * v[j] * word;
        });
      });
      out.writeUInt32LE(Number(tag % BigInt(prime)), 4 * (c * primes.length + k));
    }
  });
  return new Uint8Array(out);
}

describe('the tag of a block', () => {
  const answers: Readonly<Record<string, string>> = {
    'small compact': 'f28bad033e9c9c2977def314317e660a',
    'small exact': 'd2c6b4398b6c651732aab73a1e65753d9658923266f166054c81c50c5700d812',
    compact: '49fde529337e61010249e3305c90982d',
    exact: 'e09b0e0a9acb0632cc7a2a30ee230f28a06166151158a924d491f814328a123b',
  };
  for (const [name, request] of Object.entries(REQUESTS)) {
    const key = keyFor(request, 3);
    const { parameters, width } = key.plan;
    const block = blockOf(key, 'known', 9, 5);

    it(`${name}: a known answer`, () => {
      const tag = authenticate(key, patterned(key));
      assert.equal(tag.length, tagBytes(parameters));
      assert.equal(hex(tag), answers[name]);
    });
    it(`${name}: agrees with the definition in whole numbers, for seeds, sums and extreme residues`, () => {
      for (const each of [block, patterned(key)])
        assert.equal(hex(authenticate(key, each)), hex(slowTag(key.plan, 3, each)));
      const sum = addBlocks(block, blockOf(key, 'more', 2, 14), 2);
      assert.equal(hex(authenticate(key, sum)), hex(slowTag(key.plan, 3, sum)));
      const largest = parameters.primes.flatMap((p) => new Array<number>(parameters.n).fill(p - 1));
      const rows = Uint32Array.from({ length: width * largest.length }, (_, i) => largest[i % largest.length]);
      const extreme: Block = { ...block, mask: { residues: Uint32Array.from(largest) }, rows };
      assert.equal(hex(authenticate(key, extreme)), hex(slowTag(key.plan, 3, extreme)));
      const zero: Block = { ...block, mask: { residues: new Uint32Array(largest.length) }, rows: rows.map(() => 0) };
      assert.equal(hex(authenticate(key, zero)), '00'.repeat(tagBytes(parameters)));
    });
    it(`${name}: the same for bytes, and for a mask that is carried as a polynomial`, () => {
      const tag = authenticate(key, block);
      const bytes = encodeBlock(block);
      assert.deepEqual(authenticate(key, bytes), tag);
      assert.deepEqual(authenticate(key, Buffer.from(bytes)), tag);
      const shifted = new Uint8Array(bytes.length + 1); // words that are not aligned
      shifted.set(bytes, 1);
      assert.deepEqual(authenticate(key, shifted.subarray(1)), tag);
      assert.deepEqual(authenticate(key, withResidues(block)), tag);
      assert.deepEqual(authenticate(key, encodeBlock(withResidues(block))), tag);
    });
  }
  it('agrees with the definition where the rows take several polynomials of factors', () => {
    for (const request of [small, smallPair]) {
      for (const dimension of [62, 63, 64, 127, 128, 300]) {
        const key = keyFor({ ...request, dimension });
        const block = blockOf(key, 'wide', 3);
        assert.equal(hex(authenticate(key, block)), hex(slowTag(key.plan, 0, block)), `d = ${dimension}`);
      }
    }
  });
  it('leaves the block as it is, and nothing in the memory of the ring', () => {
    const key = keyFor(REQUESTS.exact);
    const ring = ringOf(key.plan.parameters);
    const block = withResidues(blockOf(key, 'untouched', 4));
    const bytes = encodeBlock(block);
    authenticate(key, block);
    authenticate(key, bytes);
    assert.deepEqual(encodeBlock(block), bytes);
    for (const { residues } of ring.polys) assert.ok(residues.every((x) => x === 0));
    for (const { values } of ring.words) assert.ok(values.every((x) => x === 0));
  });
});

describe('tags add up', () => {
  for (const [name, request] of Object.entries(REQUESTS)) {
    const real = !request.allowInsecure;
    it(`${name}: over sums of parts, in whatever order they are added`, () => {
      const key = keyFor({ ...request, maxAdditions: 8 });
      const { parameters } = key.plan;
      fc.assert(
        fc.property(
          fc.array(fc.integer({ min: 1, max: 6 }), { minLength: 2, maxLength: real ? 4 : 8 }),
          fc.infiniteStream(fc.nat(1e6)),
          (counts, choices) => {
            const choose = (below: number): number => choices.next().value! % below;
            let slot = 0;
            const parts = counts.map((count) => {
              const bytes = encryptBlock(key, randomVectors('part', count, key.plan.dimension, 0.9), { first: slot });
              slot += count;
              const block = choose(2) ? decodeBlock(bytes) : withResidues(decodeBlock(bytes));
              return { block, tag: authenticate(key, bytes) };
            });
            const all = parts.map(({ tag }) => tag).reduce((sum, tag) => addTags(parameters, tag, sum));
            while (parts.length > 1) {
              const at = choose(parts.length - 1);
              const [low, high] = parts.slice(at, at + 2);
              const [x, y] = choose(2) ? [low, high] : [high, low];
              const block = addBlocks(x.block, y.block, 8);
              const tag = addTags(parameters, x.tag, y.tag);
              assert.deepEqual(authenticate(key, encodeBlock(block)), tag);
              parts.splice(at, 2, { block, tag });
            }
            assert.ok(sameTag(parts[0].tag, all));
          },
        ),
        { numRuns: real ? 3 : 25 },
      );
    });
  }
  it('as residues do: addition commutes, associates, and zero is neutral', () => {
    const { parameters } = plan(REQUESTS.exact);
    const [p, q] = parameters.primes;
    const tags = fc
      .array(fc.tuple(fc.integer({ min: 0, max: p - 1 }), fc.integer({ min: 0, max: q - 1 })), {
        minLength: 4,
        maxLength: 4,
      })
      .map((words) => new Uint8Array(Uint32Array.from(words.flat()).buffer));
    fc.assert(
      fc.property(tags, tags, tags, (a, b, c) => {
        const add = (x: Uint8Array, y: Uint8Array) => addTags(parameters, x, y);
        assert.deepEqual(add(a, b), add(b, a));
        assert.deepEqual(add(add(a, b), c), add(a, add(b, c)));
        assert.deepEqual(add(a, new Uint8Array(32)), a);
      }),
    );
    const largest = new Uint8Array(Uint32Array.from({ length: 8 }, (_, i) => [p, q][i % 2] - 1).buffer);
    const twice = new Uint8Array(Uint32Array.from({ length: 8 }, (_, i) => [p, q][i % 2] - 2).buffer);
    assert.deepEqual(addTags(parameters, largest, largest), twice);
  });
});

/** Every row and the mask, changed alike. */
function mapRows(block: Block, change: (row: Uint32Array) => Uint32Array): Block {
  const words = polyWords(block.parameters);
  const rows = new Uint32Array(block.rows.length);
  for (let at = 0; at < rows.length; at += words) rows.set(change(block.rows.subarray(at, at + words)), at);
  return { ...block, rows, mask: { residues: change(blockMask(block)) } };
}

/** A block times x^k: its templates move by k slots, and it decrypts. */
function rotated(block: Block, k: number): Block {
  const ring = ringOf(block.parameters);
  return mapRows(block, (row) => {
    const [x, y] = ring.polys;
    ring.words[0].values.fill(0);
    ring.words[0].values[k] = 1;
    ring.embed(x, ring.words[0]);
    ring.ntt(x);
    y.residues.set(row);
    ring.multiply(y, y, x);
    return y.residues.slice();
  });
}

function scaled(block: Block, factor: bigint): Block {
  const ring = ringOf(block.parameters);
  return mapRows(block, (row) => {
    const [x, y] = ring.polys;
    x.residues.fill(0);
    y.residues.set(row);
    ring.scaleAdd(x, y, factor);
    return x.residues.slice();
  });
}

/**
 * Rows and mask of two blocks added as they are, which `addBlocks` refuses for slots that are
 * taken.
 */
function addedAnyway(a: Block, b: Block): Block {
  return {
    ...addBlocks({ ...a, first: 0, count: 1 }, { ...b, first: 1, count: 1 }, 99),
    first: a.first,
    count: a.count,
  };
}

/**
 * Factors, the last of them 1, for which the rows add up to zero modulo p: Gauss and Jordan. One
 * row more than columns, the others independent.
 */
function combination(rows: readonly bigint[][], p: bigint): bigint[] {
  const size = rows.length - 1;
  // Equation j: Σ_k factor_k·rows[k][j] = −rows[size][j]
  const equations = Array.from({ length: size }, (_, j) => rows.map((row, k) => (k < size ? row[j] : p - row[j])));
  for (let k = 0; k < size; k++) {
    const inverse = modInverse(equations[k][k], p);
    equations[k] = equations[k].map((x) => (x * inverse) % p);
    for (let j = 0; j < size; j++) {
      const factor = equations[j][k];
      if (j !== k) equations[j] = equations[j].map((x, i) => (x + (p - factor) * equations[k][i]) % p);
    }
  }
  return [...equations.map((equation) => equation[size]), 1n];
}

const swapped = (block: Block, i: number, j: number, length: number): Block => {
  const rows = block.rows.slice();
  rows.copyWithin(i, j, j + length);
  rows.set(block.rows.subarray(i, i + length), j);
  return { ...block, rows };
};

describe('no other block has the tag', () => {
  for (const [name, request] of Object.entries(REQUESTS)) {
    const key = keyFor(request);
    const { parameters, width } = key.plan;
    const { n } = parameters;
    const words = polyWords(parameters);
    const one = blockOf(key, 'one', 4);
    const two = blockOf(key, 'two', 3, 4);
    const three = blockOf(key, 'three', 2, 7);
    const older = addBlocks(one, two, 9);
    const sum = addBlocks(older, three, 9);
    const tag = authenticate(key, sum);
    const mask = blockMask(sum);
    const changed = (at: number, by = 1): Block => {
      const rows = sum.rows.slice();
      const p = parameters.primes[Math.floor((at % words) / n)];
      rows[at] = (rows[at] + by) % p;
      return { ...sum, rows };
    };
    const exchanged = (i: number): Block => {
      const rows = sum.rows.slice();
      rows.set(mask, i * words);
      return { ...sum, rows, mask: { residues: sum.rows.slice(i * words, (i + 1) * words) } };
    };
    const others: Readonly<Record<string, readonly Block[]>> = {
      'one word changed': [0, 1, n - 1, words - 1, words, width * words - 1].flatMap((at) => [
        changed(at),
        changed(at, parameters.primes[0] >> 1),
      ]),
      'one word of the mask changed': [0, words - 1].map((at) => ({
        ...sum,
        mask: { residues: mask.map((x, i) => (i === at ? (x === 0 ? 1 : x - 1) : x)) },
      })),
      'two rows swapped': [1, width - 1].map((i) => swapped(sum, 0, i * words, words)),
      'two words of a row swapped': [swapped(sum, 0, 1, 1), swapped(sum, words, words + n - 1, 1)],
      'a row swapped with the mask': [0, width - 1].map(exchanged),
      'a row repeated': [{ ...sum, rows: sum.rows.slice().copyWithin(0, words, 2 * words) }],
      rotated: [1, 2, 3, n / 2, n - 1].map((k) => rotated(sum, k)),
      scaled: [0n, 2n, -1n, 3n, 12345678901234567n].map((factor) => scaled(sum, factor)),
      'an older sum': [one, older],
      'other parts': [two, three, addBlocks(two, three, 9), addedAnyway(one, three)],
      'a part added twice': [one, two, three].map((part) => addedAnyway(sum, part)),
      'the same vectors, encrypted again': [
        addBlocks(
          older,
          decodeBlock(encryptBlock(key, randomVectors('three', 2, key.plan.dimension, 0.9), { first: 7 })),
          9,
        ),
      ],
      nothing: [{ ...sum, rows: new Uint32Array(sum.rows.length), mask: { residues: new Uint32Array(words) } }],
    };
    for (const [change, blocks] of Object.entries(others)) {
      it(`${name}: ${change}`, () => {
        for (const block of blocks) assert.ok(!sameTag(authenticate(key, block), tag));
      });
    }
    it(`${name}: a change modulo one prime changes every copy for that prime, and no other`, () => {
      const L = parameters.primes.length;
      for (let k = 0; k < L; k++) {
        const other = authenticate(key, changed(k * n));
        const wordOf = (bytes: Uint8Array, i: number) => new DataView(bytes.buffer).getUint32(4 * i, true);
        for (let i = 0; i < 4 * L; i++) assert.equal(wordOf(other, i) !== wordOf(tag, i), i % L === k);
      }
    });
    it(`${name}: a change and its opposite elsewhere do not cancel`, () => {
      for (const at of [1, words, words + 1]) {
        const both = changed(at, parameters.primes[0] - 1);
        both.rows[0] = (both.rows[0] + 1) % parameters.primes[0];
        assert.ok(!sameTag(authenticate(key, both), tag));
      }
    });
    it(`${name}: the sum itself has it, once more`, () => {
      const again = addBlocks(one, addBlocks(three, two, 9), 9);
      assert.ok(sameTag(authenticate(key, again), tag));
      assert.ok(sameTag(authenticate(key, rotated(sum, 0)), tag));
      assert.ok(sameTag(authenticate(key, scaled(sum, 1n)), tag));
    });
  }

  it('a rotated block decrypts to the vectors of the honest one, so decryption alone does not object', () => {
    const key = keyFor(REQUESTS['small exact']);
    const block = blockOf(key, 'one', 4);
    const moved = { ...rotated(block, 3), first: 3 };
    assert.deepEqual(decryptBlock(key, encodeBlock(moved)).integers, decryptBlock(key, encodeBlock(block)).integers);
    assert.ok(!sameTag(authenticate(key, moved), authenticate(key, block)));
  });
  it('every difference passes one copy with probability at most 2/p − 1/p², counted over small fields', () => {
    /** All vectors over the field. */
    const vectors = (p: number, length: number): number[][] =>
      Array.from({ length: p ** length }, (_, x) => Array.from({ length }, (_, i) => Math.floor(x / p ** i) % p));
    for (const [p, rows, columns] of [
      [2, 2, 3],
      [3, 2, 2],
      [5, 2, 2],
    ]) {
      let worst = 0;
      for (const difference of vectors(p, rows * columns)) {
        if (difference.every((x) => x === 0)) continue;
        let passes = 0;
        for (const u of vectors(p, rows)) {
          for (const v of vectors(p, columns)) {
            let tag = 0;
            for (let i = 0; i < rows; i++)
              for (let j = 0; j < columns; j++) tag += u[i] * v[j] * difference[i * columns + j];
            if (tag % p === 0) passes++;
          }
        }
        worst = Math.max(worst, passes / p ** (rows + columns));
      }
      assert.ok(Math.abs(worst - (2 / p - 1 / p ** 2)) < 1e-12, `${worst} over the field of ${p}`);
    }
  });
  it('unless tags are known: five of them make a block that passes, which is why they stay sealed', () => {
    const key = keyFor(REQUESTS['small compact']);
    const { parameters } = key.plan;
    const blocks = Array.from({ length: 5 }, (_, k) => blockOf(key, `known ${k}`, 1, k));
    const tags = blocks.map((block) => Array.from(new Uint32Array(authenticate(key, block).buffer), BigInt));
    const factors = combination(tags, BigInt(parameters.primes[0]));
    const nothing = blocks.map((block, k) => scaled(block, factors[k])).reduce(addedAnyway);
    assert.ok(nothing.rows.some((x) => x !== 0));
    const honest = blockOf(key, 'honest', 3);
    assert.ok(sameTag(authenticate(key, addedAnyway(honest, nothing)), authenticate(key, honest)));
  });
  it('four copies leave less than 2^−115, whatever the set', () => {
    for (const request of Object.values(REQUESTS))
      for (const p of plan(request).parameters.primes) assert.ok(4 * Math.log2(2 / p) < -115.9);
  });
});

describe('keys of tags', () => {
  for (const base of [REQUESTS['small compact'], REQUESTS['small exact'], REQUESTS.exact]) {
    it(`${plan(base).parameters.name}: another seed, collection, epoch or plan gives another tag`, () => {
      const master = MasterSeed.from(masterBytes);
      const p = plan(base);
      const keys = [
        keyFor(base),
        keyFor(base, 1),
        keyFor(base, 0, new Uint8Array(32).fill(8)),
        master.collectionKey(p, new Uint8Array(16).fill(2)),
        master.collectionKey(plan({ ...base, maxAdditions: 2 }), collectionId),
        ...(p.metric === 'euclidean' ? [master.collectionKey(plan({ ...base, normBound: 2 }), collectionId)] : []),
      ];
      const block = blockOf(keys[0], 'block', 4);
      // Under a forged key id: an honest one is refused.
      const tags = keys.map((key) =>
        hex(authenticate(key, { ...block, keyId: key.keyId, galleryScale: key.plan.galleryScale })),
      );
      assert.equal(new Set(tags).size, keys.length);
      for (const key of keys.slice(1)) {
        assert.throws(() => authenticate(key, block), refused('KEY_MISMATCH'));
        assert.throws(() => authenticate(key, encodeBlock(block)), refused('KEY_MISMATCH'));
      }
      assert.equal(hex(authenticate(keyFor(base), block)), tags[0]);
    });
  }
  it('a block of another parameter set is refused', () => {
    const key = keyFor(REQUESTS['small exact']);
    const block = blockOf(keyFor(REQUESTS['small compact']), 'block', 4);
    assert.throws(() => authenticate(key, block), refused('KEY_MISMATCH'));
  });
  it('a wiped key authenticates nothing, and its seeds are overwritten', () => {
    const key = keyFor(REQUESTS.compact);
    const block = blockOf(key, 'block', 4);
    authenticate(key, block);
    key.wipe();
    assert.throws(() => authenticate(key, block), refused('WIPED'));
    for (const { residues } of ringOf(key.plan.parameters).polys) assert.ok(residues.every((x) => x === 0));

    const seeds = {
      gallery: new Uint8Array(32).fill(5),
      authenticator: new Uint8Array(32).fill(6),
      weights: new Uint8Array(32).fill(4),
      canaries: new Uint8Array(32).fill(3),
      queries: new Uint8Array(32).fill(2),
    };
    const own = new CollectionKey(key.plan, collectionId, 0, key.keyId, key.queryMasks, seeds);
    authenticate(own, block);
    own.wipe();
    for (const seed of Object.values(seeds)) assert.deepEqual(seed, new Uint8Array(32));
  });
});

describe('what is not a block or a tag is refused', () => {
  const key = keyFor(REQUESTS['small exact']);
  const { parameters } = key.plan;
  const block = blockOf(key, 'block', 4);
  const tag = authenticate(key, block);
  const set = (at: number, value: number): Uint8Array => {
    const copy = tag.slice();
    new DataView(copy.buffer).setUint32(at, value, true);
    return copy;
  };

  it('blocks', () => {
    const bytes = encodeBlock(block);
    assert.throws(() => authenticate(key, bytes.subarray(1)), refused('MALFORMED'));
    assert.throws(
      () =>
        authenticate(
          key,
          bytes.map((b, i) => (i === 200 ? b ^ 1 : b)),
        ),
      refused('DAMAGED'),
    );
    const words = polyWords(parameters);
    const full = withResidues(block);
    const unreduced = (values: Uint32Array) => values.map((x, i) => (i === 1 ? x + parameters.primes[0] : x));
    for (const bad of [
      { ...block, rows: block.rows.subarray(1) },
      { ...block, rows: new Uint32Array(block.rows.length + words) },
      { ...block, rows: unreduced(block.rows) },
      { ...block, mask: { seed: new Uint8Array(31) } },
      { ...block, mask: { residues: full.mask.residues.subarray(1) } },
      { ...block, mask: { residues: unreduced(full.mask.residues) } },
    ])
      assert.throws(() => authenticate(key, bad), refused('MALFORMED'));
    for (const bad of [
      { ...block, width: block.width + 1 },
      { ...block, galleryScale: block.galleryScale + 1 },
    ])
      assert.throws(() => authenticate(key, bad), refused('BLOCK_MISMATCH'));
  });
  it('tags', () => {
    const add = (a: Uint8Array, b: Uint8Array, set: ParameterSet = parameters) => addTags(set, a, b);
    const [p, q] = parameters.primes;
    for (const bad of [
      tag.subarray(4),
      new Uint8Array(0),
      new Uint8Array(36),
      set(0, p),
      set(28, q),
      set(8, 2 ** 32 - 1),
    ]) {
      assert.throws(() => add(bad, tag), refused('MALFORMED'));
      assert.throws(() => add(tag, bad), refused('MALFORMED'));
    }
    assert.deepEqual(add(set(0, p - 1), set(0, 1)).subarray(0, 4), new Uint8Array(4));
    assert.throws(() => add(tag, tag, plan(REQUESTS['small compact']).parameters), refused('MALFORMED'));
    for (const bad of [undefined, null, [...tag], hex(tag), new Uint32Array(8)]) {
      assert.throws(() => add(tag, bad as never), refused('INVALID_ARGUMENT'));
      assert.throws(() => sameTag(tag, bad as never), refused('INVALID_ARGUMENT'));
      assert.throws(() => sameTag(bad as never, tag), refused('INVALID_ARGUMENT'));
    }
  });
  it('comparison: every byte counts, and two empty tags are no match', () => {
    assert.ok(sameTag(tag, tag.slice()));
    assert.ok(sameTag(tag, Buffer.from(tag)));
    for (let i = 0; i < tag.length; i++)
      assert.ok(
        !sameTag(
          tag,
          tag.map((b, k) => (k === i ? b ^ 0x80 : b)),
        ),
      );
    assert.ok(!sameTag(tag, tag.subarray(0, 16)));
    assert.throws(() => sameTag(new Uint8Array(0), new Uint8Array(0)), refused('INVALID_ARGUMENT'));
    assert.throws(() => sameTag(tag.subarray(1), tag.subarray(1)), refused('INVALID_ARGUMENT'));
  });
});
