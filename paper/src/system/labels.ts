// The label set of Algorithm 6: natural numbers that the client sends with its templates, in the
// clear. The server keeps one for each template, in the order of the gallery. (As printed, the set
// I ∪ {id} has neither order nor repetition; a list is what an index can be looked up in.) After a
// search the client hands back the indices of the best matches, and the server answers with their
// labels, as sections 3.2 and 6 have it. So the server learns who was found. Whoever must not tell
// looks ids up at home, and enrols none.

import { decodeBundle, encodeBundle } from './bundle.ts';
import { PaperError } from './errors.ts';

const BYTES = 8;

export function encodeLabels(ids: readonly number[]): Uint8Array {
  const view = new DataView(new ArrayBuffer(BYTES * ids.length));
  ids.forEach((id, i) => {
    if (!(Number.isSafeInteger(id) && id >= 0))
      throw new PaperError('INVALID_ARGUMENT', `id ${i} is ${id}; ids are whole numbers from 0 to 2^53 − 1`);
    view.setBigUint64(BYTES * i, BigInt(id), true);
  });
  return new Uint8Array(view.buffer);
}

/** One label for each of `count` templates. */
export function decodeLabels(bytes: Uint8Array, count: number): number[] {
  if (bytes.length !== BYTES * count)
    throw new PaperError('MALFORMED', `${bytes.length} bytes are not the labels of ${count} templates`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const ids = Array.from({ length: count }, (_, i) => Number(view.getBigUint64(BYTES * i, true)));
  if (!ids.every(Number.isSafeInteger)) throw new PaperError('MALFORMED', 'a label is above 2^53 − 1');
  return ids;
}

const bundled = (kind: 'indices' | 'labels', numbers: readonly number[]) => {
  const parts = [encodeLabels(numbers)];
  return encodeBundle({ kind, encoding: 0, dimension: 0, first: 0, count: numbers.length, parts });
};

/** Asks the server for the labels of templates, by their indices in the gallery. */
export function askLabels(indices: readonly number[]): Uint8Array {
  return bundled('indices', indices);
}

/** The server's answer: the labels of the templates that were asked for, in that order. */
export function answerLabels(request: Uint8Array, labels: readonly number[]): Uint8Array {
  const indices = numbersOf(request, 'indices');
  const missing = indices.find((index) => index >= labels.length);
  if (missing !== undefined)
    throw new PaperError('INVALID_ARGUMENT', `there is no label of template ${missing}; there are ${labels.length}`);
  return bundled(
    'labels',
    indices.map((index) => labels[index]),
  );
}

/** What the server answered. */
export function readLabels(answer: Uint8Array): number[] {
  return numbersOf(answer, 'labels');
}

function numbersOf(bytes: Uint8Array, kind: 'indices' | 'labels'): number[] {
  const { parts, count } = decodeBundle(bytes, kind);
  if (parts.length !== 1) throw new PaperError('MALFORMED', `a message of ${kind} has one part`);
  return decodeLabels(parts[0], count);
}
