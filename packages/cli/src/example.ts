// An example to try things with: synthetic faces in the files that people have (a .npy with
// vectors, a .csv with who they are, more pictures to search with).

import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { Database, MasterSeed, sealKey } from '@hers/client';
import type { ExampleGallery, PlainCollection } from '@hers/console';
import { openStore } from '@hers/store';
import { writeNpy } from '@hers/vectors/npy';
import { type Identities, identities } from '@hers/vectors/synthetic';
import { SENTENCE_VECTORS } from './example-vectors.ts';
import { makePrivateFolder, writePrivately } from './private-file.ts';

export const PEOPLE = 5000;
export const DIMENSION = 128;
const PROBES = 20;

const GIVEN =
  'Ada Alan Barbara Claude Dorothy Edsger Emmy Evelyn Frances Grace Hedy Ivan John Katherine Leonhard Margaret Niklaus Olga Paul Radia Sophie Tim Ursula Vint'.split(
    ' ',
  );
const FAMILY =
  'Abbott Baker Castillo Dubois Eriksen Ferrari Garcia Hansen Ito Jansen Kaya Lopez Meyer Novak Okafor Petrov Quinn Rossi Silva Tanaka Usman Varga Weber Xu Yilmaz Zhang'.split(
    ' ',
  );

export const nameOf = (person: number): string =>
  `${GIVEN[person % GIVEN.length]} ${FAMILY[Math.floor(person / GIVEN.length) % FAMILY.length]}`;
export const idOf = (person: number): string => `person-${String(person).padStart(4, '0')}`;

/** Probe i is another picture of person 250·i. */
const probed: readonly number[] = Array.from({ length: PROBES }, (_, i) => (i * PEOPLE) / PROBES);

const [FACES, ABOUT, MORE] = ['faces.npy', 'people.csv', 'probes.npy'];

/** What it consists of, in this folder. */
export const exampleFiles = (folder: string): string[] => [FACES, ABOUT, MORE].map((name) => join(folder, name));

/** Easier than the benchmarks' faces: an example should show who is found, not how often. */
const exampleFaces = (): Identities => identities(PEOPLE, 1, DIMENSION, { noise: 0.8 });
const sinceOf = (person: number): number => 1990 + (person % 35);

export async function writeExample(folder: string): Promise<void> {
  const world = exampleFaces();
  const vectorsOf = function* (vectors: Float32Array) {
    for (let at = 0; at < vectors.length; at += DIMENSION) yield vectors.subarray(at, at + DIMENSION);
  };
  const people = Array.from({ length: PEOPLE }, (_, person) => `${idOf(person)},${nameOf(person)},${sinceOf(person)}`);
  await makePrivateFolder(folder);
  const write = (name: string, content: (file: FileHandle) => Promise<unknown>) =>
    writePrivately(join(folder, name), { replace: false }, async (file) => void (await content(file)));
  await write(FACES, (file) => writeNpy(file, DIMENSION, vectorsOf(world.gallery().vectors)));
  await write(ABOUT, (file) => file.writeFile(['id,name,since', ...people, ''].join('\n')));
  await write(MORE, (file) => writeNpy(file, DIMENSION, vectorsOf(world.probes(probed).vectors)));
}

/** It protects nothing, and shows how a key is opened. */
const PASSPHRASE = 'example';
/** Little work, because the passphrase is no secret. */
const KEY_COST = 2 ** 10;
const SENTENCE_DIMENSION = 512;
/** The longest vector of the model of faces. */
const NORM_BOUND = 2;

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

/** Makes the gallery in an empty folder; returns its sealed key, and what the page shows. */
export async function makeExampleGallery(
  folder: string,
  signal: AbortSignal,
): Promise<{ readonly keyFile: string; readonly example: ExampleGallery }> {
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

export const SENTENCES: Readonly<Record<string, readonly string[]>> = {
  weather: [
    'It rained all night, and the garden is under water.',
    'A cold wind comes down from the mountains.',
    'Tomorrow will be sunny and warm.',
    'The fog was so thick that we could not see the road.',
    'Snow has closed the pass until spring.',
    'Thunder woke the children at three in the morning.',
    'After a dry summer the river is very low.',
  ],
  kitchen: [
    'Let the dough rest for an hour before you bake it.',
    'She burned the onions and started again.',
    'This soup needs more salt.',
    'He makes coffee for everyone before breakfast.',
    'Fresh bread smells better than any perfume.',
    'Peel the apples and cut them into thin slices.',
    'The knife is too blunt to cut a tomato.',
  ],
  travel: [
    'Our train leaves from platform nine at noon.',
    'The hotel lost our reservation.',
    'We walked along the coast for six days.',
    'My suitcase went to another continent.',
    'The last bus to the village had already gone.',
    'They crossed the border on foot.',
    'From the plane the islands looked like crumbs.',
  ],
  health: [
    'The doctor told him to rest and to drink more water.',
    'Her broken arm will need six weeks to heal.',
    'I have had a headache since yesterday.',
    'The vaccine is given in two doses.',
    'He stopped smoking when his daughter was born.',
    'Washing your hands prevents many infections.',
    'The nurse measured his blood pressure twice.',
  ],
  work: [
    'The meeting was moved to Thursday afternoon.',
    'She asked for a higher salary and got it.',
    'Our team has to finish the report by Monday.',
    'He quit his job to write a novel.',
    'The new colleague starts in the spring.',
    'Nobody read the instructions before the machine broke.',
    'The factory will hire two hundred people.',
  ],
  money: [
    'The bank raised its interest rates again.',
    'They paid off their house last year.',
    'Prices at the market have doubled.',
    'He keeps his savings in a tin box.',
    'The invoice was paid two months late.',
    'She lent her brother a large sum.',
    'Taxes are due at the end of May.',
  ],
  sport: [
    'The goalkeeper stopped the ball with one hand.',
    'She ran the marathon in under three hours.',
    'Our team lost in the last minute.',
    'He learned to swim when he was sixty.',
    'The climbers turned back below the summit.',
    'Two cyclists fell in the final bend.',
    'They play chess in the park every Sunday.',
  ],
  music: [
    'The violin was out of tune.',
    'A choir of children sang in the square.',
    'He plays the drums in the cellar.',
    'The concert was sold out within minutes.',
    'She hums the same melody all day.',
    'The pianist forgot the last page and made something up.',
    'Old records crackle when you play them.',
  ],
  animals: [
    'The cat sleeps on the warm roof of the car.',
    'Wolves have come back to these forests.',
    'A swarm of bees settled in the chimney.',
    'The dog waits at the door for hours.',
    'Whales sing to each other across the ocean.',
    'The farmer sold his last cow.',
    'A blackbird built its nest in my bicycle basket.',
  ],
  home: [
    'The roof leaks above the kitchen table.',
    'We painted the bedroom dark blue.',
    'The neighbours are loud until midnight.',
    'Somebody left the window open in the storm.',
    'The lift has been broken for a week.',
    'They moved into a flat without heating.',
    'The key is under the flower pot.',
  ],
  science: [
    'The telescope found a planet with two suns.',
    'Light needs eight minutes from the sun to the earth.',
    'The experiment failed because a cable was loose.',
    'Bacteria can live in boiling springs.',
    'She proved the theorem in four lines.',
    'Glaciers keep air that is a million years old.',
    'The robot learned to open doors by itself.',
  ],
  law: [
    'The judge postponed the trial until autumn.',
    'The witness could not remember the face of the thief.',
    'Both parties signed the contract.',
    'The police stopped a car without lights.',
    'He was fined for parking in front of the fire station.',
    'The new law protects whoever reports a crime.',
    'The lawyer asked for the letters to be read aloud.',
  ],
};
