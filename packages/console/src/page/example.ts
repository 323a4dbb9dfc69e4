// The example gallery, where the server of this page has one: its passphrase, and its vectors in
// the clear. A search over them is computed here as well, so that both can be compared.

import { type Signal, signal } from '@preact/signals';

export interface ExampleFacts {
  readonly passphrase?: string;
  readonly collections?: readonly string[];
}

export interface PlainCollection {
  readonly ids: readonly string[];
  readonly dimension: number;
  readonly vectors: Float32Array;
  readonly probes: readonly { readonly label: string; readonly vector: readonly number[] }[];
}

export const example: Signal<ExampleFacts> = signal({});
const read = new Map<string, Promise<PlainCollection>>();

export async function readExample(): Promise<void> {
  const answer = await fetch('example');
  if (answer.ok) example.value = await answer.json();
}

/** Whether a collection is one of the example. */
export const isExample = (name: string): boolean => example.value.collections?.includes(name) ?? false;

export function plainCollection(name: string): Promise<PlainCollection> {
  const known = read.get(name);
  if (known !== undefined) return known;
  const reading = readPlain(name);
  read.set(name, reading);
  // Asked for again, it is read again.
  reading.catch(() => read.delete(name));
  return reading;
}

async function readPlain(name: string): Promise<PlainCollection> {
  const answer = await fetch(`example/${encodeURIComponent(name)}`);
  if (!answer.ok) throw new Error('the example cannot be read');
  const { vectors, ...rest } = (await answer.json()) as Omit<PlainCollection, 'vectors'> & { vectors: string };
  const bytes = Uint8Array.from(atob(vectors), (letter) => letter.charCodeAt(0));
  return { ...rest, vectors: new Float32Array(bytes.buffer) };
}

export interface PlainMatch {
  readonly id: string;
  readonly score: number;
}

export interface PlainResult {
  /** The best first. */
  readonly ranked: readonly PlainMatch[];
  readonly ms: number;
}

/** Every vector is compared, in plain JavaScript. */
export function searchInTheClear(plain: PlainCollection, probe: ArrayLike<number>, metric: string): PlainResult {
  const began = performance.now();
  const { ids, dimension, vectors } = plain;
  const scores = new Float64Array(ids.length);
  for (let row = 0; row < ids.length; row++) {
    let [dot, own, other, far] = [0, 0, 0, 0];
    for (let i = 0; i < dimension; i++) {
      const [a, b] = [vectors[row * dimension + i]!, probe[i]!];
      dot += a * b;
      own += a * a;
      other += b * b;
      far += (a - b) ** 2;
    }
    scores[row] = metric === 'dot' ? dot : metric === 'euclidean' ? Math.sqrt(far) : dot / Math.sqrt(own * other);
  }
  const sign = metric === 'euclidean' ? 1 : -1;
  const order = Array.from(scores.keys()).sort((a, b) => sign * (scores[a]! - scores[b]!));
  const ranked = order.map((row) => ({ id: ids[row]!, score: scores[row]! }));
  return { ranked, ms: performance.now() - began };
}
