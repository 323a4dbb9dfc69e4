// Expansion of open queries into rows, and packing of their results (packages/scheme/README.md
// §9), by native code or WebAssembly. packages/scheme/testing/slow-open.ts is the plain
// version, which this equals to the byte. Nothing here is secret.

import { chosenNative } from './choose.ts';
import { type Constants, WasmExpansion } from './expansion-wasm.ts';
import { type Modulus, modInverse, modPow, moduliOf, rootOfUnity } from './modulus.ts';
import type { Isa, Native } from './native.ts';

/** Coordinates that the last levels of a node give, and bases of mask rows. */
const LEAVES = 8;
const BASES = 3;
const LAST_LEVELS = 3;
/** Words of a line of keys for mask rows. */
const LINE = 16;
/** The least n of vectors of sixteen words: the last levels work on eighths. */
const LEAST_NATIVE_N = 128;

/** What an expansion depends on beside its keys. */
export interface ExpansionShape {
  readonly n: number;
  /** q, p1 and p2. */
  readonly primes: readonly number[];
  readonly width: number;
  readonly steps: number;
  /** Steps that have one result. */
  readonly trace: number;
  readonly nodes: number;
  readonly masks: number;
  readonly digits: number;
  readonly digitBits: number;
  readonly wideBits: number;
  readonly bases: readonly number[];
  /** p1^−1 and p2^−1 mod q. */
  readonly inverses: readonly number[];
  /** round(2^55/p1) and round(2^55/p2). */
  readonly reciprocals: readonly number[];
  /** (p1·p2)^−1 mod q, p2^−1 mod p1, p1^−1 mod p2. */
  readonly scales: readonly number[];
  /** Exponents of the automorphisms of the steps, and of the leaves of the last levels. */
  readonly exponents: readonly number[];
  /** Results that share a response. */
  readonly responses: number;
}

/** Keys as they are used, in Montgomery form: native/expansion.h has the layouts. */
export interface PreparedKeys {
  /** Of steps 1 and on. */
  readonly steps: Uint32Array;
  readonly last: Uint32Array;
  readonly masks: Uint32Array;
  readonly packing: Uint32Array;
}

/** The functions of native/expansion.cc. */
export interface ExpansionAddon {
  expandQuery(
    isa: Isa,
    shape: Uint32Array,
    tables: Uint32Array,
    permutations: Uint16Array,
    monomials: Uint32Array,
    lastMonomials: Uint32Array,
    first: Uint32Array,
    steps: Uint32Array,
    last: Uint32Array,
    masks: Uint32Array,
    body: Uint32Array,
    mask: Uint32Array,
    bodies: Uint32Array,
    masksOut: Uint32Array,
    threads: number,
  ): void;
  packResults(
    isa: Isa,
    shape: Uint32Array,
    tables: Uint32Array,
    responses: number,
    count: number,
    keys: Uint32Array,
    bodies: Uint32Array,
    masks: Uint32Array,
    out: Uint32Array,
  ): void;
}

const reversed = (x: number, bits: number) => {
  let out = 0;
  for (let bit = 0; bit < bits; bit++) out |= ((x >> bit) & 1) << (bits - 1 - bit);
  return out;
};

const companion = (w: number, p: number) => Number((BigInt(w) << 32n) / BigInt(p));

/** Factors, and their companions behind them. */
function putFactors(out: Uint32Array, at: number, factors: Uint32Array, p: number): void {
  out.set(factors, at);
  for (const [i, w] of factors.entries()) out[at + factors.length + i] = companion(w, p);
}

/** a·2^32 modulo p. */
export function toMontgomery(out: Uint32Array, a: Uint32Array, p: number): void {
  const factor = 2 ** 32 % p;
  // Both are below 2^30, so halves of fifteen bits keep every step exact in a double.
  const [high, low] = [Math.floor(factor / 2 ** 15), factor % 2 ** 15];
  for (let i = 0; i < a.length; i++) out[i] = (((a[i] * high) % p) * 2 ** 15 + a[i] * low) % p;
}

export class Expansion {
  readonly #constants: Constants;
  readonly #native: Native | null;
  #wasm: WasmExpansion | undefined;

  /** With native code, or, where that is null, with WebAssembly. */
  constructor(shape: ExpansionShape, native: Native | null = chosenNative()) {
    const { n, primes, bases } = shape;
    if (bases.length !== BASES || 2 ** shape.steps * LEAVES !== n)
      throw new RangeError('an expansion has three bases of mask rows, and a step for every level but three');
    this.#native = n >= LEAST_NATIVE_N ? native : null;
    const moduli = primes.map((p) => moduliOf(n, [p])[0]);
    const tables = new Uint32Array(3 * 4 * n);
    moduli.forEach(({ p, roots, inverses }, l) => {
      putFactors(tables, 4 * n * l, roots, p);
      putFactors(tables, 4 * n * l + 2 * n, inverses, p);
    });
    this.#constants = {
      shape,
      numbers: numbersOf(shape, moduli),
      tables,
      permutations: permutationsOf(shape),
      monomials: monomialsOf(shape),
      lastMonomials: lastMonomialsOf(shape),
    };
  }

  /** Made at its first use: its memory holds a copy of the keys. */
  #kernel(): WasmExpansion {
    this.#wasm ??= new WasmExpansion(this.#constants);
    return this.#wasm;
  }

  /**
   * Expands body and mask, modulo q and p1 in NTT form, into rows modulo q. `first` has the keys of
   * step 0, in Montgomery form. WebAssembly has one thread.
   */
  expand(
    keys: PreparedKeys,
    first: Uint32Array,
    body: Uint32Array,
    mask: Uint32Array,
    out: { readonly bodies: Uint32Array; readonly masks: Uint32Array },
    threads = 1,
  ): void {
    if (!this.#native) {
      this.#kernel().expand(keys, first, body, mask, out);
      return;
    }
    const { addon, isa } = this.#native;
    const { numbers, tables, permutations, monomials, lastMonomials } = this.#constants;
    addon.expandQuery(
      isa,
      numbers,
      tables,
      permutations,
      monomials,
      lastMonomials,
      first,
      keys.steps,
      keys.last,
      keys.masks,
      body,
      mask,
      out.bodies,
      out.masks,
      threads,
    );
  }

  /**
   * Packs the results of `count` blocks, bodies and masks one after the other: coefficients modulo
   * q that were switched to 32 bits, which tell them exactly if q is below 2^30. `out` gets the
   * bodies, then the mask they share, modulo q in coefficient form.
   */
  pack(keys: PreparedKeys, count: number, bodies: Uint32Array, masks: Uint32Array, out: Uint32Array): void {
    if (!this.#native) {
      this.#kernel().pack(keys, count, bodies, masks, out);
      return;
    }
    const { addon, isa } = this.#native;
    const { shape, numbers, tables } = this.#constants;
    addon.packResults(isa, numbers, tables, shape.responses, count, keys.packing, bodies, masks, out);
  }
}

/** In the order in which native/expansion.cc reads them. */
function numbersOf(shape: ExpansionShape, moduli: readonly Modulus[]): Uint32Array {
  const { n, width, steps, trace, nodes, masks, digits, digitBits, wideBits, bases, primes } = shape;
  const p2 = BigInt(primes[2]);
  const perPrime = moduli.flatMap(({ p, scale, last }, l) => {
    const prime = BigInt(p);
    const times = (x: number) => Number((BigInt(x) * BigInt(shape.scales[l])) % prime);
    // −p^−1 modulo 2^32 by Newton's iteration: every round doubles the bits that are right.
    let inverse = p;
    for (let round = 0; round < 5; round++) inverse = Math.imul(inverse, 2 - Math.imul(p, inverse));
    const raise = l === 2 ? [0, 0] : [Number(p2 % prime), Number(modInverse(p2, prime))];
    return [p, -inverse >>> 0, scale, last, times(scale), times(last), ...raise];
  });
  const head = [n, width, steps, trace, nodes, masks, digits, digitBits, wideBits, ...bases];
  return Uint32Array.from([...head, ...shape.inverses, ...shape.reciprocals, ...perPrime]);
}

/** Residue i of a(x^g) is a(ψ^((2·brv(i)+1)·g)): residue brv(((2·brv(i)+1)·g − 1)/2) of a. */
function permutationsOf({ n, exponents }: ExpansionShape): Uint16Array {
  const bits = Math.log2(n);
  const out = new Uint16Array(exponents.length * n);
  exponents.forEach((g, k) => {
    for (let i = 0; i < n; i++) {
      const power = ((2 * reversed(i, bits) + 1) * g) % (2 * n);
      out[k * n + i] = reversed((power - 1) / 2, bits);
    }
  });
  return out;
}

/** x^−2^k in NTT form with companions, modulo q and p1, for every step of the tree. */
function monomialsOf({ n, primes, steps, trace }: ExpansionShape): Uint32Array {
  const out = new Uint32Array((steps - trace) * 4 * n);
  for (let k = trace; k < steps; k++)
    for (let l = 0; l < 2; l++)
      putFactors(out, (4 * (k - trace) + 2 * l) * n, monomial(n, primes[l], 2 ** k), primes[l]);
  return out;
}

function monomial(n: number, p: number, exponent: number): Uint32Array {
  const prime = BigInt(p);
  const bits = Math.log2(n);
  const base = modPow(modInverse(rootOfUnity(p, n), prime), BigInt(exponent), prime);
  const square = (base * base) % prime;
  const out = new Uint32Array(n);
  let power = base;
  for (let j = 0; j < n; j++) {
    out[reversed(j, bits)] = Number(power);
    power = (power * square) % prime;
  }
  return out;
}

/** x^−(2^level·exponent of the levels that follow), which eighths of the residues share. */
function lastMonomialsOf({ n, primes, steps, exponents }: ExpansionShape): Uint32Array {
  const out: number[] = [];
  for (const p of primes)
    for (let z = 0; z < LAST_LEVELS; z++)
      for (let c = 0; c < LEAVES; c++) {
        if ((c >> z) & 1) continue;
        const later = exponents[steps + ((c >> (z + 1)) << (z + 1))];
        const values = monomial(n, p, (2 ** (steps + z) * later) % (2 * n));
        const eighths = Array.from({ length: LEAVES }, (_, i) => values[(i * n) / LEAVES]);
        out.push(...eighths, ...eighths.map((w) => companion(w, p)));
      }
  return Uint32Array.from(out);
}

/** Keys for mask rows in lines: `words` is the polynomial of one leaf, base and place of four. */
export function putMaskKey(
  out: Uint32Array,
  { n }: ExpansionShape,
  at: {
    readonly group: number;
    readonly l: number;
    readonly leaf: number;
    readonly base: number;
    readonly place: number;
  },
  words: Uint32Array,
): void {
  const size = LEAVES * BASES * 4;
  const start = (at.group * 3 + at.l) * n * size + LINE * ((at.leaf * BASES + at.base) * 4 + at.place);
  for (let i = 0; i < n; i += LINE) out.set(words.subarray(i, i + LINE), start + i * size);
}
