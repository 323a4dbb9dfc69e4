// A trained compressor: bytes of an ONNX file, and the function to shorter vectors in it.

import { CompressError } from './errors.ts';
import { decodeModel, malformed, type OnnxModel } from './onnx.ts';
import { compile, type Program } from './plain.ts';

/**
 * Something that runs ONNX models: `runtime.node.ts` here, onnxruntime-web or another in a browser.
 */
export interface Runtime {
  /**
   * Makes a model ready to run: `rows` vectors, one after the other, to as many.
   *
   * @param model - An .onnx file.
   */
  open(model: Uint8Array): Promise<(vectors: Float32Array, rows: number) => Promise<Float32Array>>;
}

/** Where training stood after so many steps. */
export interface CurvePoint {
  /** How many steps were taken. */
  step: number;
  /** The running average of the loss. */
  loss: number;
  /** The share of the loss that is the covariance penalty, where there is one. */
  penaltyShare?: number;
  /** On identities that were held out, where some were. */
  rank1?: number;
}

/** How the training of one stage of a network went. */
export interface LearningCurve {
  /** The dimensions of the stage, input and output included. */
  chain: readonly number[];
  /** How many vectors it learned from. */
  vectors: number;
  /** In the order of the steps. */
  points: readonly CurvePoint[];
}

/**
 * What the file says about how the model came about. Figures are numbers; settings may be anything
 * JSON holds.
 */
export interface Metadata {
  /** `pca`, `lda`, `deepmds`, `deepmds++`, … */
  method: string;
  /** How vectors of either dimension are compared. */
  metric: 'cosine';
  /** What the method was told. */
  settings: Readonly<Record<string, unknown>>;
  /** Measured while it was made, by name. */
  figures: Readonly<Record<string, number>>;
  /** Of methods that learn step by step, a stage after the other. */
  curves?: readonly LearningCurve[];
  /** Sentences for people: what was tried, what was found. */
  notes: readonly string[];
}

/** Maps vectors to fewer dimensions: `fit` and `load` make one. */
export interface Compressor {
  /** How it was made. */
  readonly method: string;
  /** Of the vectors that it takes. */
  readonly inputDimension: number;
  /** Of the vectors that it makes. */
  readonly outputDimension: number;
  /** What is known about its making. */
  readonly metadata: Metadata;
  /**
   * Whether every machine computes the same bits, whatever else is transformed with a vector: one
   * linear map in plain arithmetic, not a network, nor anything whose last bit is up to the engine.
   */
  readonly reproducible: boolean;
  /**
   * Unit vectors of `outputDimension`, one after the other, for vectors of `inputDimension`, of any
   * length but zero.
   *
   * @param vectors - One after the other.
   * @throws {CompressError} INVALID_VECTOR: for a number of numbers that is no multiple of
   *   `inputDimension`, a vector of length zero, or one that is not finite.
   */
  transform(vectors: Float32Array | readonly number[]): Promise<Float32Array<ArrayBuffer>>;
  /** The .onnx file. */
  save(): Uint8Array<ArrayBuffer>;
}

/** What runs a network that is loaded. */
export interface LoadOptions {
  /**
   * For models that plain TypeScript cannot run, or not fast enough. Default: onnxruntime-node
   * where there is Node, nothing elsewhere. `null` for none.
   */
  runtime?: Runtime | null;
}

const METADATA_KEY = 'hers';

export function metadataProperties(metadata: Metadata): Record<string, string> {
  return { [METADATA_KEY]: JSON.stringify(metadata) };
}

/** Multiplications that plain TypeScript does at once; then it lets others have their turn. */
const PORTION = 2 ** 25;
/** From so many multiplications on a network goes to the runtime, if there is one. */
const WORTH_A_RUNTIME = 2 ** 24;
/** Vectors the runtime gets at once: a run blocks the thread. */
const RUNTIME_ROWS = 1024;

/**
 * Opens a compressor.
 *
 * @param bytes - An .onnx file, as `save` gives it.
 * @param options - What runs networks.
 * @throws {CompressError} MALFORMED: for what is no model of vectors.
 * @throws {CompressError} UNSUPPORTED_MODEL: for a model with an operation that nothing at hand can
 *   run.
 * @example
 * const compressor = await load(await readFile('faces.onnx'));
 * const short = await compressor.transform(embedding);
 */
export async function load(bytes: Uint8Array, options: LoadOptions = {}): Promise<Compressor> {
  const file = new Uint8Array(bytes);
  const model = decodeModel(file);
  const metadata = readMetadata(model);
  let program: Program | undefined;
  let shape: { inputDimension: number; outputDimension: number };
  const linear = isLinear(model);
  const runtime = options.runtime === undefined ? (linear ? undefined : await localRuntime()) : options.runtime;
  try {
    shape = program = compile(model);
  } catch (error) {
    if (!(error instanceof CompressError && error.code === 'UNSUPPORTED_MODEL') || !runtime) throw error;
    shape = declaredShape(model);
  }
  const { inputDimension, outputDimension } = shape;
  let opened: ReturnType<Runtime['open']> | undefined;
  return {
    method: metadata.method,
    inputDimension,
    outputDimension,
    metadata,
    reproducible: linear && program !== undefined && !runtime && model.nodes.every(({ op }) => op !== 'Tanh'),
    save: () => file.slice(),
    async transform(given) {
      const vectors = given instanceof Float32Array ? given : Float32Array.from(given);
      checkVectors(vectors, inputDimension);
      const rows = vectors.length / inputDimension;
      if (program && (!runtime || rows * program.cost < WORTH_A_RUNTIME)) return inPortions(program, vectors);
      const infer = await (opened ??= runtime!.open(file));
      const result = new Float32Array(rows * outputDimension);
      for (let row = 0; row < rows; row += RUNTIME_ROWS) {
        const count = Math.min(RUNTIME_ROWS, rows - row);
        const part = vectors.slice(row * inputDimension, (row + count) * inputDimension);
        result.set(await infer(part, count), row * outputDimension);
        await turn();
      }
      return result;
    },
  };
}

/** Networks are worth a runtime; a linear map is not. */
const isLinear = ({ nodes }: OnnxModel) => nodes.filter(({ op }) => op === 'Gemm' || op === 'MatMul').length === 1;

async function localRuntime(): Promise<Runtime | undefined> {
  try {
    return (await import('#runtime')).runtime;
  } catch {
    return; // not installed on this platform: plain TypeScript serves
  }
}

async function inPortions(program: Program, vectors: Float32Array): Promise<Float32Array<ArrayBuffer>> {
  const rows = vectors.length / program.inputDimension;
  const together = Math.max(32, Math.floor(PORTION / program.cost / 32) * 32);
  if (rows <= together) return program.run(vectors);
  const result = new Float32Array(rows * program.outputDimension);
  for (let row = 0; row < rows; row += together) {
    const part = vectors.subarray(row * program.inputDimension, (row + together) * program.inputDimension);
    result.set(program.run(part), row * program.outputDimension);
    await turn();
  }
  return result;
}

function turn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve));
}

function readMetadata(model: OnnxModel): Metadata {
  const text = model.metadata?.[METADATA_KEY];
  const fallback: Metadata = { method: 'unknown', metric: 'cosine', settings: {}, figures: {}, notes: [] };
  if (text === undefined) return fallback; // a network from another tool
  try {
    const parsed = JSON.parse(text);
    if (typeof parsed.method !== 'string' || parsed.metric !== 'cosine') throw new TypeError();
    return { ...fallback, ...parsed };
  } catch {
    throw malformed('has metadata that cannot be read');
  }
}

function declaredShape(model: OnnxModel) {
  const inputDimension = model.inputs[0]?.shape[1];
  const outputDimension = model.outputs[0]?.shape[1];
  if (typeof inputDimension !== 'number' || typeof outputDimension !== 'number')
    throw malformed('does not say how many dimensions its vectors have');
  return { inputDimension, outputDimension };
}

/** Whole vectors, of numbers, each with a direction. Says which one is not, never what is in it. */
export function checkVectors(vectors: Float32Array, dimension: number): void {
  if (vectors.length % dimension !== 0)
    throw new CompressError(
      'INVALID_VECTOR',
      `This compressor takes vectors of ${dimension} dimensions; ${vectors.length} numbers are not a whole number of them.`,
    );
  for (let row = 0, at = 0; at < vectors.length; row++) {
    let squares = 0;
    for (const end = at + dimension; at < end; at++) squares += vectors[at] * vectors[at];
    if (!(squares > 0 && squares < Infinity)) {
      const what =
        squares === 0 ? 'has length zero, and so no direction' : 'holds something that is not a finite number';
      throw new CompressError('INVALID_VECTOR', `Vector ${row} ${what}.`);
    }
  }
}
