// What client and server agree on: the parameters, as SEAL wants them, and the form in which
// ciphertexts travel. Nothing in it is secret.

import type { BatchEncoder, Ciphertext, Evaluator, MainModule, SEALContext } from 'node-seal';
import { PaperError, sealMessage } from './errors.ts';
import { Heap, type Scope } from './heap.ts';
import { type Parameters, PUBLISHED } from './parameters.ts';

/**
 * How ciphertexts are written. A search is faster without compression; the sizes in the paper are
 * those of `zlib`.
 */
export type Compression = 'none' | 'zlib' | 'zstd';

export interface ContextOptions {
  readonly compression?: Compression;
  /** What SEAL's heap may grow to, in bytes; nearly 4 GiB, all it can, unless given. */
  readonly heapBytes?: number;
}

/** Anything of SEAL's that can be written to bytes. */
type Savable = { saveToArray(mode: unknown): Uint8Array };

export class Context implements Disposable {
  readonly parameters: Parameters;
  readonly heap: Heap;
  readonly seal: MainModule;
  readonly sealContext: SEALContext;
  readonly encoder: BatchEncoder;
  readonly evaluator: Evaluator;
  readonly modulusBits: readonly number[];
  readonly #scope: Scope;
  readonly #compression: Compression;

  private constructor(parameters: Parameters, heap: Heap, compression: Compression) {
    const { seal } = heap;
    this.parameters = parameters;
    this.heap = heap;
    this.seal = seal;
    this.#compression = compression;
    this.#scope = heap.scope();
    const { n, scheme, plainModulus } = parameters;
    using scope = heap.scope();
    const wanted = scope.own(new seal.EncryptionParameters(seal.SchemeType[scheme]));
    const modulus = scope.own(seal.CoeffModulus.BFVDefault(n, seal.SecLevelType.tc128));
    wanted.setPolyModulusDegree(n);
    wanted.setCoeffModulus(modulus);
    wanted.setPlainModulus(scope.own(new seal.Modulus(BigInt(plainModulus))));
    this.modulusBits = Array.from({ length: modulus.size() }, (_, i) => scope.own(modulus.get(i)!).bitCount());
    this.sealContext = this.#scope.own(new seal.SEALContext(wanted, true, seal.SecLevelType.tc128));
    if (!this.sealContext.parametersSet()) {
      this.#scope[Symbol.dispose]();
      throw new PaperError('INVALID_ARGUMENT', `SEAL refuses the parameters ${parameters.name}`);
    }
    this.encoder = this.#scope.own(new seal.BatchEncoder(this.sealContext));
    this.evaluator = this.#scope.own(new seal.Evaluator(this.sealContext));
  }

  /**
   * Opens SEAL with a set of parameters, the paper's unless given.
   *
   * @example using context = await Context.open();
   */
  static async open(parameters: Parameters = PUBLISHED, options: ContextOptions = {}): Promise<Context> {
    const { compression = 'none', heapBytes } = options;
    if (!['none', 'zlib', 'zstd'].includes(compression)) {
      throw new PaperError('INVALID_ARGUMENT', 'compression must be none, zlib or zstd');
    }
    return new Context(parameters, await Heap.open(parameters, heapBytes), compression);
  }

  /** Bytes of an object, which are the caller's: not a view of the heap. */
  save(object: Savable | Ciphertext): Uint8Array {
    return (object as Savable).saveToArray(this.seal.ComprModeType[this.#compression]);
  }

  /** Reads what `save` wrote into `target`; SEAL checks it against the parameters. */
  load<T extends { loadFromArray(context: SEALContext, bytes: unknown): void }>(target: T, bytes: Uint8Array): T {
    try {
      target.loadFromArray(this.sealContext, bytes);
    } catch (error) {
      throw new PaperError(
        'MALFORMED',
        `these bytes are not what they should be, or for other parameters: ${sealMessage(error)}`,
        {
          cause: error,
        },
      );
    }
    return target;
  }

  [Symbol.dispose](): void {
    this.#scope[Symbol.dispose]();
  }
}
