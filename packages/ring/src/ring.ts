// R_Q = Z_Q[x]/(x^n + 1) with Q a product of one or two primes below 2^30: the arithmetic
// everything else is made of.
//
// A `Poly` and a `Words` live in the ring's WebAssembly memory; a ring hands out a fixed number of
// them, which callers reuse. All operations are synchronous, so a function may use the scratch
// polynomials freely as long as it does not call another one that does.

import type { KernelExports } from '../build/kernel.ts';
import { chosenNative } from './choose.ts';
import { instantiate } from './kernel.ts';
import { bitLength, isPrime, type Modulus, modInverse, moduliOf } from './modulus.ts';
import {
  LEAST_NATIVE_N,
  NATIVE_FUNCTIONS,
  type Native,
  type NativeRing,
  type PhaseArguments,
  type SecretArguments,
  type SourceArguments,
} from './native.ts';
import { type BlockRows, blockRows, type QueryRows, queryRows } from './rows.ts';

const SCRATCH_POLYS = 8;
const SCRATCH_WORDS = 6;

/** A modulus, and where its tables are. */
interface Placed extends Modulus {
  readonly tables: number;
}

/** A polynomial of R_Q: n residues for each prime, one prime after the other. */
export interface Poly {
  readonly pointer: number;
  readonly residues: Uint32Array;
}

/** n signed words: small coefficients (secrets, errors, digits, encoded messages). */
export interface Words {
  readonly pointer: number;
  readonly values: Int32Array;
}

/**
 * Where a sampled polynomial comes from: a 32-byte key of the expandable generator, and two words
 * that separate its uses.
 */
export interface Source {
  readonly key: Uint8Array;
  readonly domain: number;
  readonly index: number;
}

/** The secret of a query, for many responses. As secret as the words; `wipe` overwrites both. */
export class ResultSecret {
  /** The transform of a ternary polynomial modulo the first prime. */
  readonly words: Uint32Array;
  #points: Float64Array | undefined;
  #isFor: NativeRing | undefined;
  constructor(words: Uint32Array) {
    this.words = words;
  }
  /** What native code computes with, made when it first decrypts. */
  pointsFor(native: NativeRing): Float64Array {
    const points = (this.#points ??= new Float64Array(this.words.length));
    if (this.#isFor !== native) {
      native.secretPoints(points, this.words);
      this.#isFor = native;
    }
    return points;
  }
  wipe(): void {
    this.words.fill(0);
    this.#points?.fill(0);
    this.#isFor = undefined;
  }
}

/** Two polynomials of n values of so many bits, packed: what a response carries. */
export interface PackedPair {
  readonly packed0: Uint8Array;
  readonly bits0: number;
  readonly packed1: Uint8Array;
  readonly bits1: number;
}

/** Responses to one query, for `rank`. Native code reads the memory until the promise settles. */
export interface RankJob {
  /** Where they are, and where each begins. */
  readonly memory: Uint8Array;
  readonly at: Uint32Array;
  /** How each must begin, but for what names its block. */
  readonly head: Uint8Array;
  readonly bits0: number;
  readonly bits1: number;
  /** A score is phase·factor + offset; no phase may be larger than this. */
  readonly factor: number;
  readonly offset: number;
  readonly largest: number;
  /** How many each response has: their slots, and the scores that they must have, within `room`. */
  readonly canaries: number;
  readonly slots: Uint32Array;
  readonly expected: Float64Array;
  readonly room: number;
  /** Records to leave out, ascending, and where those of each response end. */
  readonly dead: Uint32Array;
  readonly deadEnds: Uint32Array;
  /** Records that count, ⌈n/32⌉ words of bits, and where those of each begin; or ALL_RECORDS. */
  readonly chosen: Uint32Array;
  readonly chosenAt: Uint32Array;
  /** Scores are squared distances, of which the smallest are the best. */
  readonly areDistances: boolean;
  /** What a score, or the negative of a distance, must exceed. */
  readonly floor: number;
  readonly limit: number;
}

/** In `chosenAt`: all records count. */
export const ALL_RECORDS = 0xffffffff;

const rings = new Map<string, Ring>();
const latest = new WeakMap<readonly number[], Ring>();

export class Ring {
  readonly n: number;
  readonly primes: readonly number[];
  /** Q, the product of the primes. */
  readonly modulus: bigint;
  readonly polys: readonly Poly[];
  readonly words: readonly Words[];

  readonly #kernel: KernelExports;
  readonly #native: NativeRing | undefined;
  readonly #isa: string | undefined;
  readonly #moduli: readonly Placed[];
  readonly #second: number; // p1, or zero
  readonly #inverse: number; // p0^−1 mod p1
  readonly #bits: number; // the bit length of every prime
  readonly #key: Uint8Array;
  readonly #bytes: Uint8Array; // keystream, sums and packed bits
  readonly #wide: Float64Array; // n integers of 64 bits
  readonly #scratch: Uint8Array; // all of the above that can hold secrets

  static of(n: number, primes: readonly number[]): Ring {
    const native = chosenNative();
    // Whoever asks often asks with the same list.
    const known = latest.get(primes);
    if (known?.n === n && known.#isa === native?.isa) return known;
    const name = `${native?.isa}:${n}:${primes.join(',')}`;
    let ring = rings.get(name);
    if (!ring) rings.set(name, (ring = new Ring(n, primes, native)));
    latest.set(primes, ring);
    return ring;
  }

  /** With native code or, by default, without. */
  constructor(n: number, primes: readonly number[], native: Native | null = null) {
    if (!(n >= 16 && n <= 8192 && (n & (n - 1)) === 0))
      throw new RangeError(`n must be a power of two from 16 to 8192, not ${n}`);
    if (primes.length < 1 || primes.length > 2 || primes[0] === primes[1])
      throw new RangeError('a ring has one or two distinct primes');
    const bits = bitLength(primes[0]);
    if (primes.some((p) => bitLength(p) !== bits) || bits > 30)
      throw new RangeError('primes must share one bit length of at most 30');
    for (const p of primes) if (!isPrime(p)) throw new RangeError(`${p} is not a prime`);
    this.n = n;
    this.primes = [...primes];
    this.modulus = primes.reduce((q, p) => q * BigInt(p), 1n);
    this.#bits = bits;
    this.#isa = native?.isa;

    const row = 4 * n;
    const tableBytes = 4 * row * primes.length;
    const polyBytes = row * primes.length;
    const work = 8 * n + 512; // 64-bit sums, or 6n bytes of keystream rounded up, or packed bits
    const scratchBytes = SCRATCH_POLYS * polyBytes + SCRATCH_WORDS * row + 2 * row + work + 64;
    const { kernel, base } = instantiate(tableBytes + scratchBytes);
    this.#kernel = { ...kernel };
    const buffer = kernel.memory.buffer;
    this.#moduli = moduliOf(n, primes).map((m, i) => this.#place(m, base + 4 * row * i));
    this.#second = primes[1] ?? 0;
    this.#inverse = primes.length === 2 ? Number(modInverse(BigInt(primes[0]), BigInt(primes[1]))) : 0;

    let at = base + tableBytes;
    this.#scratch = new Uint8Array(buffer, at, scratchBytes);
    const take = (bytes: number): number => {
      at += bytes;
      return at - bytes;
    };
    this.polys = Array.from({ length: SCRATCH_POLYS }, () => {
      const pointer = take(polyBytes);
      return { pointer, residues: new Uint32Array(buffer, pointer, n * primes.length) };
    });
    this.words = Array.from({ length: SCRATCH_WORDS }, () => {
      const pointer = take(row);
      return { pointer, values: new Int32Array(buffer, pointer, n) };
    });
    this.#wide = new Float64Array(buffer, take(2 * row), n);
    this.#bytes = new Uint8Array(buffer, take(work), work);
    this.#key = new Uint8Array(buffer, take(64), 32);
    if (!native || n < LEAST_NATIVE_N) return;
    const constants = this.#moduli.flatMap((m) => [m.p, m.mu, m.shift, m.scale, m.last, m.tables]);
    const made = native.addon.createRing(native.variant, buffer, n, this.#inverse, Uint32Array.from(constants));
    this.#native = made;
    for (const name of NATIVE_FUNCTIONS) Object.assign(this.#kernel, { [name]: made[name] });
  }

  #place(m: Modulus, tables: number): Placed {
    const { buffer } = this.#kernel.memory;
    new Uint32Array(buffer, tables, this.n).set(m.roots);
    new Uint32Array(buffer, tables + 8 * this.n, this.n).set(m.inverses);
    this.#kernel.companions(tables, this.n, m.p);
    return { ...m, tables };
  }

  #each(f: (m: Placed, offset: number, i: number) => void): void {
    for (let i = 0; i < this.#moduli.length; i++) f(this.#moduli[i], 4 * this.n * i, i);
  }

  /** Zeroes everything scratch, secrets included. */
  wipe(): void {
    this.#scratch.fill(0);
  }

  // — transforms and pointwise arithmetic; outputs may be inputs —

  ntt(a: Poly): void {
    this.#each((m, o) => this.#kernel.ntt(a.pointer + o, m.tables, this.n, m.p));
  }

  intt(a: Poly): void {
    this.#each((m, o) => this.#kernel.intt(a.pointer + o, m.tables, this.n, m.p, m.scale, m.last));
  }

  add(out: Poly, a: Poly, b: Poly): void {
    this.#each((m, o) => this.#kernel.add(out.pointer + o, a.pointer + o, b.pointer + o, this.n, m.p));
  }

  subtract(out: Poly, a: Poly, b: Poly): void {
    this.#each((m, o) => this.#kernel.subtract(out.pointer + o, a.pointer + o, b.pointer + o, this.n, m.p));
  }

  multiply(out: Poly, a: Poly, b: Poly): void {
    this.#each((m, o) =>
      this.#kernel.multiply(out.pointer + o, a.pointer + o, b.pointer + o, this.n, m.p, m.mu, m.shift),
    );
  }

  /** out += a·b */
  multiplyAdd(out: Poly, a: Poly, b: Poly): void {
    this.#each((m, o) =>
      this.#kernel.multiplyAdd(out.pointer + o, a.pointer + o, b.pointer + o, this.n, m.p, m.mu, m.shift),
    );
  }

  /** out −= a·b */
  multiplySubtract(out: Poly, a: Poly, b: Poly): void {
    this.#each((m, o) =>
      this.#kernel.multiplySubtract(out.pointer + o, a.pointer + o, b.pointer + o, this.n, m.p, m.mu, m.shift),
    );
  }

  /** out += scalar·a */
  scaleAdd(out: Poly, a: Poly, scalar: bigint): void {
    this.#each((m, o) => this.#kernel.scaleAdd(out.pointer + o, a.pointer + o, residue(scalar, m.p), this.n, m.p));
  }

  /** True when every word of one polynomial, laid out as in `residues`, is below its prime. */
  isReduced(residues: Uint32Array): boolean {
    const { n } = this;
    const poly = this.polys[SCRATCH_POLYS - 1];
    poly.residues.set(residues);
    let ok = 1;
    this.#each((m, o) => {
      ok &= this.#kernel.isReduced(poly.pointer + o, n, m.p);
    });
    return ok === 1;
  }

  // — between signed words and residues —

  /** out = scale·values + noise, in coefficient form. */
  encode(out: Poly, values: Words, noise: Words, scale: bigint): void {
    this.#each((m, o) =>
      this.#kernel.encode(out.pointer + o, values.pointer, noise.pointer, residue(scale, m.p), this.n, m.p),
    );
  }

  embed(out: Poly, values: Words): void {
    this.#each((m, o) => this.#kernel.embed(out.pointer + o, values.pointer, this.n, m.p));
  }

  /**
   * The centred coefficients, in (−Q/2, Q/2], of a polynomial in coefficient form; beyond 2^53
   * rounded to doubles.
   */
  centred(a: Poly): Float64Array {
    const { n } = this;
    const { buffer, byteOffset } = this.#bytes;
    this.#kernel.centre(byteOffset, a.pointer, a.pointer + 4 * n, n, this.primes[0], this.#second, this.#inverse);
    return new Float64Array(buffer, byteOffset, n).slice();
  }

  // — sampling —

  /** Loads the key. Gives what samplers end with: work space, the key, what separates its uses. */
  #from({ key, domain, index }: Source): [bytes: number, key: number, domain: number, index: number] {
    this.#key.set(key);
    return [this.#bytes.byteOffset, this.#key.byteOffset, domain, index];
  }

  uniform(out: Poly, source: Source): void {
    const from = this.#from(source);
    this.#each((m, o, i) => this.#kernel.uniform(out.pointer + o, this.n, m.p, ...from, i));
  }

  ternary(out: Words, source: Source): void {
    this.#kernel.ternary(out.pointer, this.n, ...this.#from(source));
  }

  /** Centred binomial with η = 21, σ² = 10.5. */
  error(out: Words, source: Source): void {
    this.#kernel.centredBinomial(out.pointer, this.n, ...this.#from(source));
  }

  // — modulo Q·2^t, where Q ≡ 1 (mod 2^t): residues modulo the primes, and the low t bits —

  /** n words uniform below 2^t. */
  uniformBits(out: Words, t: number, source: Source): void {
    this.#kernel.uniformBits(out.pointer, this.n, t, ...this.#from(source));
  }

  /**
   * out = scale·values + noise + sign·product modulo 2^t. `product` is a polynomial in coefficient
   * form, of which the first prime alone is read: its integers are below half of that.
   */
  combineBits(out: Words, values: Words, noise: Words, product: Poly, t: number, scale: bigint, sign: 1 | -1): void {
    const [p] = this.primes;
    const low = Number(BigInt.asUintN(32, scale));
    this.#kernel.combineBits(out.pointer, values.pointer, noise.pointer, product.pointer, this.n, p, t, low, sign);
  }

  /** The low t bits of the centred coefficients of a polynomial in coefficient form. */
  lowBits(out: Words, a: Poly, t: number): void {
    const { n } = this;
    this.#kernel.lowBits(out.pointer, a.pointer, a.pointer + 4 * n, n, this.primes[0], this.#second, this.#inverse, t);
  }

  /**
   * The centred integers modulo Q·2^t of a polynomial in coefficient form and its low bits. They
   * stay in the ring, for the three methods below.
   */
  joinWide(a: Poly, bits: Words, t: number): void {
    const { byteOffset: out, length: n } = this.#wide;
    const [p] = this.primes;
    this.#kernel.joinWide(out, a.pointer, a.pointer + 4 * n, bits.pointer, n, p, this.#second, this.#inverse, t);
  }

  /** The joined integers divided by 2^t, rounded with ties to even, modulo Q. */
  roundWide(out: Poly, t: number): void {
    this.#each((m, o) => this.#kernel.roundWide(out.pointer + o, this.#wide.byteOffset, this.n, m.p, t));
  }

  /** Balanced digits of the joined integers, into consecutive scratch words from `first` on. */
  digitsWide(first: number, bits: number, count: number): void {
    if (first + count > SCRATCH_WORDS) throw new RangeError('too many digits');
    this.#kernel.digitsWide(this.words[first].pointer, this.#wide.byteOffset, this.n, bits, count);
  }

  /** The joined integers, beyond 2^53 rounded to doubles. They are joined no longer. */
  centredWide(): Float64Array {
    this.#kernel.floatWide(this.#wide.byteOffset, this.n);
    return this.#wide.slice();
  }

  // — switching to a power of two and back —

  /** Bytes of n values of `bits` bits. */
  packedBytes(bits: number): number {
    return (this.n * bits) / 8;
  }

  /**
   * A polynomial in coefficient form, switched from Q to 2^bits with rounding and packed into
   * `out`.
   */
  switchAndPack(out: Uint8Array, a: Poly, bits: number): void {
    const { n } = this;
    const sums = this.#bytes.byteOffset;
    const words = this.words[0].pointer;
    this.#each((m, o) => this.#kernel.switchShare(sums, a.pointer + o, m.share, m.reciprocal, n, m.p, o === 0 ? 1 : 0));
    this.#kernel.switchRound(words, sums, n, 31 + this.#bits, bits);
    this.#kernel.packBits(sums, words, n, bits);
    out.set(this.#bytes.subarray(0, this.packedBytes(bits)));
  }

  /** Where c1 is cut, so that the product of either half with a ternary polynomial is exact. */
  #cut(bits0: number, bits1: number): number {
    const { n } = this;
    const most = this.#bits - 1 - Math.log2(n); // n·2^(cut−1) ≤ 2^(b−2) < p/2
    const cut = Math.min(bits1, most);
    if (bits1 - cut > most || bits0 > bits1)
      throw new RangeError(`cannot decrypt ${bits1} and ${bits0} bits at n = ${n}`);
    return cut;
  }

  /**
   * The phase c0·2^(bits1−bits0) + s·c1 modulo 2^bits1, centred, of a packed pair, into words[0].
   * `secret` is the transform of the ternary s modulo the first prime.
   */
  phase({ packed0, bits0, packed1, bits1 }: PackedPair, secret: Uint32Array): Words {
    const { n } = this;
    const k = this.#kernel;
    const m = this.#moduli[0];
    const [phase, c0, c1] = this.words;
    const [low, high, s] = this.polys;
    const cut = this.#cut(bits0, bits1);
    const bytes = this.#bytes.byteOffset;
    this.#bytes.set(packed0);
    k.unpackBits(c0.pointer, bytes, n, bits0);
    this.#bytes.set(packed1);
    k.unpackBits(c1.pointer, bytes, n, bits1);
    s.residues.set(secret);
    k.splitCentred(low.pointer, high.pointer, c1.pointer, n, bits1, cut, m.p);
    for (const half of cut < bits1 ? [low, high] : [low]) {
      k.ntt(half.pointer, m.tables, n, m.p);
      k.multiply(half.pointer, half.pointer, s.pointer, n, m.p, m.mu, m.shift);
      k.intt(half.pointer, m.tables, n, m.p, m.scale, m.last);
    }
    k.joinPhase(phase.pointer, c0.pointer, low.pointer, high.pointer, n, bits1, bits0, cut, m.p);
    return phase;
  }

  #phaseArguments(native: NativeRing, pair: PackedPair, secret: ResultSecret): PhaseArguments {
    this.#cut(pair.bits0, pair.bits1); // what WebAssembly cannot decrypt is refused here, too
    return [pair.packed0, pair.bits0, pair.packed1, pair.bits1, secret.pointsFor(native)];
  }

  /**
   * phase·factor + offset as floats of a packed pair, and the largest |phase|. Leaves no secret.
   * The caller may give the memory of the n floats.
   */
  scores(
    pair: PackedPair,
    secret: ResultSecret,
    factor: number,
    offset: number,
    values: Float32Array = new Float32Array(this.n),
  ): Scaled<Float32Array, 'largest'> {
    if (values.length !== this.n) throw new RangeError(`scores take ${this.n} floats`);
    if (this.#native) {
      const from = this.#phaseArguments(this.#native, pair, secret);
      return { values, largest: this.#native.scores(values, ...from, factor, offset) };
    }
    try {
      const out = this.words[1].pointer;
      const largest = this.#kernel.scaleToFloat(out, this.phase(pair, secret.words).pointer, this.n, factor, offset);
      values.set(new Float32Array(this.#kernel.memory.buffer, out, this.n));
      return { values, largest };
    } finally {
      this.wipe();
    }
  }

  /**
   * Decrypts and ranks many responses at once, on a thread of its own: number of the response,
   * record and score of each, best first. Undefined where there is no native code, and where a
   * response is not as it should be: then each has to be decrypted by `scores`.
   */
  async rank(job: RankJob, secret: ResultSecret): Promise<Float64Array | undefined> {
    if (!this.#native) return undefined;
    const { bits0, bits1 } = job;
    this.#cut(bits0, bits1);
    return this.#native.rank(
      job.memory,
      job.at,
      job.head,
      bits0,
      bits1,
      secret.pointsFor(this.#native),
      job.factor,
      job.offset,
      job.largest,
      job.canaries,
      job.slots,
      job.expected,
      job.room,
      job.dead,
      job.deadEnds,
      job.chosen,
      job.chosenAt,
      job.areDistances ? 1 : 0,
      job.floor,
      job.limit,
    );
  }

  /** Whether `rank` can do anything. */
  get canRank(): boolean {
    return this.#native !== undefined;
  }

  /**
   * The nearest integers to phase·factor of a packed pair, and the largest distance from one.
   * Leaves no secret.
   */
  integers(pair: PackedPair, secret: ResultSecret, factor: number): Scaled<Int32Array, 'residual'> {
    if (this.#native) {
      const values = new Int32Array(this.n);
      const from = this.#phaseArguments(this.#native, pair, secret);
      return { values, residual: this.#native.integers(values, ...from, factor) };
    }
    try {
      const out = this.words[1];
      const phase = this.phase(pair, secret.words).pointer;
      const residual = this.#kernel.scaleToInteger(out.pointer, phase, this.n, factor);
      return { values: out.values.slice(), residual };
    } finally {
      this.wipe();
    }
  }

  // — whole jobs: rows.ts says what they give. `wipe` after them —

  blockRows(job: BlockRows): void {
    if (!this.#native) {
      blockRows(this, job);
      return;
    }
    const { rows, values, count, first } = job;
    const lifts = this.#liftWords(job.lifts);
    this.#native.blockRows(rows, values, count, first, lifts, ...sourcesOf(job), ...secretsOf(job), job.wideBits);
  }

  queryRows(job: QueryRows): void {
    if (!this.#native) {
      queryRows(this, job);
      return;
    }
    const { rows, secret, values, result, wideBits, digitBits, digits } = job;
    const sources = [...sourcesOf(job), result.key, result.domain, ...secretsOf(job)] as const;
    const lifts = this.#liftWords(job.lifts);
    this.#native.queryRows(rows, secret, values, lifts, ...sources, wideBits, digitBits, digits);
  }

  /** For each row the residues of its lift, and its low word. */
  #liftWords(lifts: readonly number[]): Uint32Array {
    const moduli = [...this.primes, 2 ** 32];
    const out = new Uint32Array(lifts.length * moduli.length);
    for (let i = 0; i < lifts.length; i++)
      for (let k = 0; k < moduli.length; k++) out[i * moduli.length + k] = lifts[i] % moduli[k];
    return out;
  }
}

/** Keys and domains of masks and errors, as native code takes them. */
function sourcesOf({ mask, errors }: BlockRows | QueryRows): SourceArguments {
  return [mask.key, mask.domain, mask.bitsDomain, errors.key, errors.domain];
}

function secretsOf({ secrets }: BlockRows | QueryRows): SecretArguments {
  const { key, domain, kept = new Uint32Array(), isKept = new Uint8Array() } = secrets;
  return [key, domain, kept, isKept];
}

/** Values, and the worst of them. */
type Scaled<T, Worst extends string> = { readonly values: T } & { readonly [K in Worst]: number };

function residue(x: bigint, p: number): number {
  const prime = BigInt(p);
  return Number(((x % prime) + prime) % prime);
}

/** Returns 32 bytes from the platform's CSPRNG (Web Crypto, in Node and in browsers). */
export function randomSeed(): Uint8Array {
  return randomBytes(32);
}

export function randomBytes(length: number): Uint8Array {
  return crypto.getRandomValues(new Uint8Array(length));
}
