// Expansion and packing by WebAssembly: the steps of native/expansion_lanes.h, each a call of the
// module, in a memory of its own that also holds the keys.

import { type ExpansionExports, expansionBase64 } from '../build/expansion.ts';
import type { ExpansionShape, PreparedKeys } from './expansion.ts';

const LEAVES = 8;
const BASES = 3;
/** Where the primes begin in the numbers of a shape, and how many each has. */
const PRIMES_AT = 16;
const PRIME_NUMBERS = 8;

/** What expansion.ts has computed for both kinds of code. */
export interface Constants {
  readonly shape: ExpansionShape;
  readonly numbers: Uint32Array;
  readonly tables: Uint32Array;
  readonly permutations: Uint16Array;
  readonly monomials: Uint32Array;
  readonly lastMonomials: Uint32Array;
}

interface Prime {
  readonly p: number;
  readonly negated: number;
  readonly scale: number;
  readonly last: number;
  readonly switchScale: number;
  readonly switchLast: number;
  readonly p2: number;
  readonly p2Inverse: number;
  readonly tables: number;
}

/** Takes memory for everything: byte offsets. */
function placesIn({ shape, permutations, monomials, lastMonomials }: Constants, take: (bytes: number) => number) {
  const { n, nodes, masks, steps, responses } = shape;
  const poly = 4 * n;
  return {
    permutations: take(permutations.byteLength),
    monomials: take(monomials.byteLength),
    lastMonomials: take(lastMonomials.byteLength),
    tree: take(4 * poly * nodes),
    next: take(4 * poly * nodes),
    digits: take(6 * poly),
    body: take(2 * poly),
    // Packing has its results here.
    leaves: take(Math.max(6 * LEAVES, 4 * responses + 2) * poly),
    spare: take(poly),
    sums: take(6 * BASES * masks * poly),
    first: take(24 * poly),
    steps: take(24 * (steps - 1) * poly),
    last: take(12 * LEAVES * poly),
    masks: take((nodes / masks) * 3 * LEAVES * BASES * 4 * poly),
    packing: take(responses * (responses + 1) * 2 * poly),
  };
}

let compiled: WebAssembly.Module | undefined;

export class WasmExpansion {
  readonly #shape: ExpansionShape;
  readonly #kernel: ExpansionExports;
  readonly #primes: readonly Prime[];
  /** Byte offsets. */
  readonly #at: ReturnType<typeof placesIn>;
  #keys: PreparedKeys | undefined;
  #first: Uint32Array | undefined;

  constructor(constants: Constants) {
    const { shape, numbers, tables, permutations, monomials, lastMonomials } = constants;
    compiled ??= new WebAssembly.Module(Uint8Array.from(atob(expansionBase64), (c) => c.charCodeAt(0)));
    this.#kernel = new WebAssembly.Instance(compiled).exports as unknown as ExpansionExports;
    this.#shape = shape;
    let end = (this.#kernel.heapBase() + 63) & ~63;
    const take = (bytes: number) => {
      end += (bytes + 63) & ~63;
      return end - ((bytes + 63) & ~63);
    };
    const poly = 4 * shape.n;
    const tablesAt = take(tables.byteLength);
    this.#at = placesIn(constants, take);
    const missing = end - this.#kernel.memory.buffer.byteLength;
    if (missing > 0) this.#kernel.memory.grow(Math.ceil(missing / 65536));
    this.#words(tablesAt, tables.length).set(tables);
    new Uint16Array(this.#kernel.memory.buffer, this.#at.permutations, permutations.length).set(permutations);
    this.#words(this.#at.monomials, monomials.length).set(monomials);
    this.#words(this.#at.lastMonomials, lastMonomials.length).set(lastMonomials);
    this.#primes = [0, 1, 2].map((l) => {
      const [p, negated, scale, last, switchScale, switchLast, p2, p2Inverse] = numbers.subarray(
        PRIMES_AT + PRIME_NUMBERS * l,
      );
      return { p, negated, scale, last, switchScale, switchLast, p2, p2Inverse, tables: tablesAt + 4 * poly * l };
    });
  }

  #words(at: number, length: number): Uint32Array {
    return new Uint32Array(this.#kernel.memory.buffer, at, length);
  }

  #load(keys: PreparedKeys): void {
    if (this.#keys === keys) return;
    for (const name of ['steps', 'last', 'masks', 'packing'] as const)
      this.#words(this.#at[name], keys[name].length).set(keys[name]);
    this.#keys = keys;
  }

  #forward(at: number, l: number): void {
    this.#kernel.ntt(at, this.#primes[l].tables, this.#shape.n, this.#primes[l].p);
  }

  #inverse(at: number, l: number): void {
    const { tables, p, scale, last } = this.#primes[l];
    this.#kernel.intt(at, tables, this.#shape.n, p, scale, last);
  }

  /** The inverse transform, times the constants that a switch of modulus begins with. */
  #switchInverse(at: number, l: number): void {
    const { tables, p, switchScale, switchLast } = this.#primes[l];
    this.#kernel.intt(at, tables, this.#shape.n, p, switchScale, switchLast);
  }

  #switchDown(at: number, t: number, lifts: 0 | 1): void {
    const { n, inverses, reciprocals } = this.#shape;
    const [q, p1, p2] = this.#primes;
    const [i1, i2] = inverses;
    const [r1, r2] = reciprocals;
    this.#kernel.switchDown(at, at + 4 * n, at + 8 * n, n, t, lifts, q.p, p1.p, p2.p, i1, i2, r1, r2);
  }

  expand(
    keys: PreparedKeys,
    first: Uint32Array,
    body: Uint32Array,
    mask: Uint32Array,
    out: { readonly bodies: Uint32Array; readonly masks: Uint32Array },
  ): void {
    const { n, width, steps, trace, nodes, masks } = this.#shape;
    const at = this.#at;
    const poly = 4 * n;
    this.#load(keys);
    if (this.#first !== first) this.#words(at.first, first.length).set(first);
    this.#first = first;
    this.#words(at.tree, 2 * n).set(body);
    this.#words(at.tree + 2 * poly, 2 * n).set(mask);
    this.#words(at.sums, 6 * BASES * masks * n).fill(0);
    let [from, to, count] = [at.tree, at.next, 1];
    for (let k = 0; k < steps; k++) {
      const isTree = k >= trace;
      for (let i = 0; i < count; i++) {
        const odd = isTree ? to + 4 * (count + i) * poly : 0;
        this.#step(k, from + 4 * i * poly, to + 4 * i * poly, odd);
      }
      if (isTree) count *= 2;
      [from, to] = [to, from];
    }
    for (let i = 0; i < nodes; i++) this.#finishNode(i, from + 4 * i * poly, out);
    this.#maskRows(out, width);
  }

  /** The digits of a mask, and the body times p2. A node is [half][q, p1][n]. */
  #decompose(node: number): void {
    const { n } = this.#shape;
    const poly = 4 * n;
    const { digits, body, spare } = this.#at;
    for (let j = 0; j < 2; j++) {
      const mask = node + (2 + j) * poly;
      this.#words(digits + 4 * j * poly, n).set(this.#words(mask, n));
      this.#words(spare, n).set(this.#words(mask, n));
      this.#inverse(spare, j);
      for (let l = 0; l < 3; l++) {
        if (l === j) continue;
        const digit = digits + (3 * j + l) * poly;
        this.#kernel.lift(digit, spare, this.#primes[j].p, this.#primes[l].p, n);
        this.#forward(digit, l);
      }
      this.#kernel.scaled(body + j * poly, node + j * poly, this.#primes[j].p2, n, this.#primes[j].p);
    }
  }

  #step(k: number, node: number, even: number, odd: number): void {
    const { n, trace } = this.#shape;
    const poly = 4 * n;
    const { digits, body, leaves, permutations, first, steps, monomials } = this.#at;
    const key = k === 0 ? first : steps + 24 * (k - 1) * poly;
    this.#decompose(node);
    for (let l = 0; l < 3; l++)
      for (let half = 0; half < 2; half++) {
        const { p, negated } = this.#primes[l];
        const place = (3 * half + l) * poly;
        this.#kernel.step(
          leaves + place,
          odd ? leaves + 6 * poly + place : 0,
          digits + l * poly,
          digits + (3 + l) * poly,
          half === 0 && l < 2 ? body + l * poly : 0,
          key + place,
          permutations + 2 * k * n,
          n,
          p,
          negated,
        );
      }
    this.#down(leaves, even);
    if (!odd) return;
    this.#down(leaves + 6 * poly, odd);
    for (let half = 0; half < 2; half++)
      for (let l = 0; l < 2; l++) {
        const factors = monomials + (4 * (k - trace) + 2 * l) * poly;
        this.#kernel.multiplyEach(odd + (2 * half + l) * poly, factors, n, this.#primes[l].p);
      }
  }

  /** [half][prime][n] divided by p2 and rounded: [half][q, p1][n]. */
  #down(raised: number, out: number): void {
    const { n } = this.#shape;
    const poly = 4 * n;
    const { spare } = this.#at;
    for (let half = 0; half < 2; half++) {
      const from = raised + 3 * half * poly;
      this.#inverse(from + 2 * poly, 2);
      for (let l = 0; l < 2; l++) {
        const { p, p2Inverse } = this.#primes[l];
        this.#kernel.lift(spare, from + 2 * poly, this.#primes[2].p, p, n);
        this.#forward(spare, l);
        this.#kernel.subtractScaled(out + (2 * half + l) * poly, from + l * poly, spare, p2Inverse, n, p);
      }
    }
  }

  /** The last levels of one node: the rows of its coordinates, and their part in the mask rows. */
  #finishNode(at: number, node: number, out: { readonly bodies: Uint32Array; readonly masks: Uint32Array }): void {
    const { n, width, nodes, masks, steps, wideBits } = this.#shape;
    const poly = 4 * n;
    const { digits, body, leaves, permutations, last, lastMonomials, masks: keys, sums } = this.#at;
    this.#decompose(node);
    const own = at >= width ? 0 : Math.ceil((width - at) / nodes);
    const pairs = 3 * (LEAVES / 2) * 2 * LEAVES * 4;
    for (let l = 0; l < 3; l++)
      for (let half = 0; half < 2; half++) {
        const { p, negated } = this.#primes[l];
        const place = (3 * half + l) * poly;
        this.#kernel.lastLevels(
          leaves + place,
          digits + l * poly,
          digits + (3 + l) * poly,
          half === 0 && l < 2 ? body + l * poly : 0,
          last + place,
          permutations + 2 * steps * n,
          lastMonomials + l * pairs,
          n,
          p,
          negated,
        );
      }
    for (let c = 0; c < own; c++)
      for (let half = 0; half < 2; half++) {
        const leaf = leaves + (6 * c + 3 * half) * poly;
        for (let l = 0; l < 3; l++) this.#switchInverse(leaf + l * poly, l);
        this.#switchDown(leaf, wideBits, 1);
        for (let l = 0; l < 3; l++) this.#forward(leaf + l * poly, l);
        (half ? out.masks : out.bodies).set(this.#words(leaf, n), (at + c * nodes) * n);
      }
    for (let l = 0; l < 3; l++) {
      const { p, negated } = this.#primes[l];
      const group = keys + (Math.floor(at / masks) * 3 + l) * LEAVES * BASES * 4 * poly;
      for (let base = 0; base < BASES; base++)
        for (let half = 0; half < 2; half++) {
          const sum = sums + (((at % masks) * BASES + base) * 6 + 3 * half + l) * poly;
          const place = 4 * base + half;
          this.#kernel.addMaskKeys(sum, leaves + l * poly, leaves + (3 + l) * poly, own, group, place, n, p, negated);
        }
    }
  }

  #maskRows(out: { readonly bodies: Uint32Array; readonly masks: Uint32Array }, width: number): void {
    const { n, masks, digits, digitBits, bases } = this.#shape;
    const poly = 4 * n;
    const { sums, leaves } = this.#at;
    for (let mask = 0; mask < masks; mask++)
      for (let base = 0; base < BASES; base++)
        for (let half = 0; half < 2; half++) {
          const sum = sums + ((mask * BASES + base) * 6 + 3 * half) * poly;
          for (let l = 0; l < 3; l++) this.#switchInverse(sum + l * poly, l);
          const end = base + 1 < BASES ? bases[base + 1] : digits;
          for (let k = bases[base]; k < end; k++) {
            for (let l = 0; l < 3; l++) {
              const { p } = this.#primes[l];
              this.#kernel.scaled(leaves + l * poly, sum + l * poly, 2 ** (digitBits * (k - bases[base])) % p, n, p);
            }
            this.#switchDown(leaves, 0, 0);
            this.#forward(leaves, 0);
            (half ? out.masks : out.bodies).set(this.#words(leaves, n), (width + mask * digits + k) * n);
          }
        }
  }

  pack(keys: PreparedKeys, count: number, bodies: Uint32Array, masks: Uint32Array, out: Uint32Array): void {
    const { n, responses } = this.#shape;
    const poly = 4 * n;
    const { leaves, spare, packing } = this.#at;
    const [q, , p2] = this.#primes;
    this.#load(keys);
    const masksAt = leaves;
    const bodiesAt = masksAt + responses * poly;
    const liftedAt = bodiesAt + responses * poly;
    const outAt = liftedAt + responses * poly;
    const restAt = outAt + poly;
    this.#words(masksAt, count * n).set(masks);
    this.#words(bodiesAt, count * n).set(bodies);
    for (let u = 0; u < count; u++) {
      const at = masksAt + u * poly;
      this.#kernel.unswitch(at, at, 0, n, q.p);
      this.#kernel.lift(liftedAt + u * poly, at, q.p, p2.p, n);
      this.#forward(at, 0);
      this.#forward(liftedAt + u * poly, 2);
    }
    const stride = (responses + 1) * 2 * poly;
    for (let o = 0; o <= count; o++) {
      const isMask = o === count;
      const key = packing + (isMask ? responses : o) * 2 * poly;
      this.#kernel.packSum(outAt, masksAt, key, stride, count, n, q.p, q.negated);
      this.#kernel.packSum(restAt, liftedAt, key + poly, stride, count, n, p2.p, p2.negated);
      this.#inverse(outAt, 0);
      this.#inverse(restAt, 2);
      this.#kernel.lift(spare, restAt, p2.p, q.p, n);
      this.#kernel.subtractScaled(outAt, outAt, spare, q.p2Inverse, n, q.p);
      if (!isMask) this.#kernel.unswitch(outAt, bodiesAt + o * poly, outAt, n, q.p);
      out.set(this.#words(outAt, n), o * n);
    }
  }
}
