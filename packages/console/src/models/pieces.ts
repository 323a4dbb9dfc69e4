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
