// The native ring (native/) as TypeScript sees it: some functions of the WebAssembly kernel, which
// work on its memory and give the same bytes, and whole jobs that take one call instead of
// hundreds.

import type { KernelExports } from '../build/kernel.ts';
import type { ExpansionAddon } from './expansion.ts';

/** Functions of assembly/kernel.ts that there is native code for. */
export const NATIVE_FUNCTIONS = [
  'ntt',
  'intt',
  'add',
  'subtract',
  'multiply',
  'multiplyAdd',
  'multiplySubtract',
  'scaleAdd',
  'encode',
  'embed',
  'isReduced',
  'uniform',
  'ternary',
  'centredBinomial',
  'uniformBits',
] as const satisfies readonly (keyof KernelExports)[];

/** The smallest n that it serves; smaller rings exist for tests alone. */
export const LEAST_NATIVE_N = 64;

/** Keys and domains: of a mask and its low bits, and of errors. */
export type SourceArguments = [Uint8Array, number, number, Uint8Array, number];
/** Key and domain of secrets, and those that are kept; empty where there is no room for them. */
export type SecretArguments = [key: Uint8Array, domain: number, kept: Uint32Array, isKept: Uint8Array];

/** A packed pair, each half with its bits, and what `secretPoints` made of the secret. */
export type PhaseArguments = [Uint8Array, number, Uint8Array, number, Float64Array];

export interface NativeRing extends Pick<KernelExports, (typeof NATIVE_FUNCTIONS)[number]> {
  blockRows(
    rows: Uint32Array,
    values: Int32Array,
    count: number,
    first: number,
    lifts: Uint32Array,
    ...sources: [...SourceArguments, ...SecretArguments, wideBits: number]
  ): void;
  queryRows(
    rows: Uint32Array,
    secret: Uint32Array,
    values: Int32Array,
    lifts: Uint32Array,
    ...sources: [
      ...SourceArguments,
      resultKey: Uint8Array,
      resultDomain: number,
      ...SecretArguments,
      wideBits: number,
      digitBits: number,
      digits: number,
    ]
  ): void;
  /** n numbers of a secret, for the two below. */
  secretPoints(out: Float64Array, secret: Uint32Array): void;
  scores(out: Float32Array, ...from: [...PhaseArguments, factor: number, offset: number]): number;
  integers(out: Int32Array, ...from: [...PhaseArguments, factor: number]): number;
  /**
   * The best of many responses, on another thread: [response, record, score] of each. Nothing where
   * one of them is not as it should be.
   */
  rank(
    memory: Uint8Array,
    at: Uint32Array,
    head: Uint8Array,
    bits0: number,
    bits1: number,
    points: Float64Array,
    factor: number,
    offset: number,
    largest: number,
    canaries: number,
    slots: Uint32Array,
    expected: Float64Array,
    room: number,
    dead: Uint32Array,
    deadEnds: Uint32Array,
    chosen: Uint32Array,
    chosenAt: Uint32Array,
    areDistances: number,
    floor: number,
    limit: number,
  ): Promise<Float64Array | undefined>;
}

/** Instruction sets that there is code for, best first. */
export type Isa = 'avx512' | 'avx2';

export interface NativeAddon extends ExpansionAddon {
  /** Those of this machine, best first. Functions below take the place of one of them. */
  variants(): Isa[];
  /**
   * The functions of one ring in the memory of a WebAssembly instance. `constants` has for each
   * prime p, mu, shift, scale, last and the offset of its tables.
   */
  createRing(variant: number, memory: ArrayBuffer, n: number, inverse: number, constants: Uint32Array): NativeRing;
  squareSums(variant: number, out: Float64Array, data: Float32Array, dimension: number): void;
  roundVectors(
    variant: number,
    out: Int32Array,
    squares: Float64Array,
    data: Float32Array,
    factors: Float64Array,
    steps: number,
    dimension: number,
  ): void;
  products(variant: number, out: Float64Array, values: Int32Array, probe: Float64Array): void;
  closeGaps(variant: number, values: Float32Array, slots: Uint32Array): void;
  groupSums(
    variant: number,
    out: Float64Array,
    scores: Float32Array,
    order: Uint16Array,
    plus: number,
    divisor: number,
  ): void;
  packThree(variant: number, out: Uint8Array, words: Uint32Array): void;
  unpackThree(variant: number, out: Uint32Array, bytes: Uint8Array): void;
}

export interface Native {
  readonly addon: NativeAddon;
  readonly isa: Isa;
  /** The place of this instruction set among those of the addon. */
  readonly variant: number;
}

/** An addon with all its variants, best first. */
export function variantsOf(addon: NativeAddon): Native[] {
  return addon.variants().map((isa, variant) => ({ addon, isa, variant }));
}
