// `hers console --example`: a gallery without secrets, in a temporary folder. Faces are synthetic
// vectors, and sentences are our own. The page gets them in the clear as well, for comparison.

import { Database, MasterSeed, sealKey } from '@hers/client';
import type { ExampleGallery, PlainCollection } from '@hers/console';
import { openStore } from '@hers/store';
import { DIMENSION, exampleFaces, idOf, nameOf, PEOPLE, probed, sinceOf } from './example.ts';
import { SENTENCES } from './example-sentences.ts';
import { SENTENCE_VECTORS } from './example-vectors.ts';

/** It protects nothing, and shows how a key is opened. */
const PASSPHRASE = 'example';
/** Little work, because the passphrase is no secret. */
const KEY_COST = 2 ** 10;
const SENTENCE_DIMENSION = 512;
/** The longest vector of the model of faces. */
const NORM_BOUND = 2;

export interface MadeExample {
  /** The sealed key. */
  readonly keyFile: string;
  readonly example: ExampleGallery;
}

/** Vectors at unit length, out of rounded ones. */
export function sentenceVectors(): Float32Array {
  const bytes = Buffer.from(SENTENCE_VECTORS, 'base64');
  const rounded = new Int8Array(bytes.buffer, bytes.byteOffset, bytes.length);
  const vectors = Float32Array.from(rounded);
  for (let at = 0; at < vectors.length; at += SENTENCE_DIMENSION) {
    const vector = vectors.subarray(at, at + SENTENCE_DIMENSION);
    const length = Math.hypot(...vector);
    for (let i = 0; i < vector.length; i++) vector[i]! /= length;
  }
  return vectors;
}

const rowOf = ({ vectors, dimension }: PlainCollection, row: number) =>
  vectors.subarray(row * dimension, (row + 1) * dimension);

/** Makes the gallery in an empty folder. */
export async function makeExampleGallery(folder: string, signal: AbortSignal): Promise<MadeExample> {
  using key = MasterSeed.generate();
  const database = new Database(await openStore(folder), { key });
  const world = exampleFaces();
  const further = world.probes(probed).vectors;
  const faces: PlainCollection = {
    ids: Array.from({ length: PEOPLE }, (_, person) => idOf(person)),
    dimension: DIMENSION,
    vectors: world.gallery().vectors,
    probes: probed.map((person, at) => ({
      label: `another picture of ${idOf(person)}`,
      vector: Array.from(further.subarray(at * DIMENSION, (at + 1) * DIMENSION)),
    })),
  };
  const topics = Object.entries(SENTENCES).flatMap(([topic, all]) => all.map((text) => ({ topic, text })));
  const sentences: PlainCollection = {
    ids: topics.map(({ text }) => text),
    dimension: SENTENCE_DIMENSION,
    vectors: sentenceVectors(),
  };
  try {
    const people = await database.createCollection('faces', {
      dimension: DIMENSION,
      metric: 'euclidean',
      normBound: NORM_BOUND,
      fields: { name: 'keyword', since: 'number' },
    });
    await people.upsert(
      faces.ids.map((id, person) => ({
        ...{ id, vector: rowOf(faces, person) },
        payload: { name: nameOf(person), since: sinceOf(person) },
      })),
      { signal },
    );
    await people.optimize({ signal });
    const notes = await database.createCollection('sentences', {
      dimension: SENTENCE_DIMENSION,
      fields: { topic: 'keyword' },
    });
    await notes.upsert(
      topics.map(({ topic, text }, at) => ({ id: text, vector: rowOf(sentences, at), payload: { topic } })),
      { signal },
    );
    await notes.optimize({ signal });
  } finally {
    await database.close();
  }
  const keyFile = await sealKey(key, PASSPHRASE, KEY_COST);
  return { keyFile, example: { passphrase: PASSPHRASE, collections: { faces, sentences } } };
}
