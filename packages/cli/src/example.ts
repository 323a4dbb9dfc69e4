// An example to try things with: synthetic faces in the files that people have (a .npy with
// vectors, a .csv with who they are, more pictures to search with).

import { join } from 'node:path';
import { writeNpy } from '@hers/vectors/npy';
import { type Identities, identities } from '@hers/vectors/synthetic';
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
export const probed: readonly number[] = Array.from({ length: PROBES }, (_, i) => (i * PEOPLE) / PROBES);

const [FACES, ABOUT, MORE] = ['faces.npy', 'people.csv', 'probes.npy'];

/** What it consists of, in this folder. */
export const exampleFiles = (folder: string): string[] => [FACES, ABOUT, MORE].map((name) => join(folder, name));

/** Easier than the benchmarks' faces: an example should show who is found, not how often. */
export const exampleFaces = (): Identities => identities(PEOPLE, 1, DIMENSION, { noise: 0.8 });
export const sinceOf = (person: number): number => 1990 + (person % 35);

export async function writeExample(folder: string): Promise<void> {
  const world = exampleFaces();
  const vectorsOf = function* (vectors: Float32Array) {
    for (let at = 0; at < vectors.length; at += DIMENSION) yield vectors.subarray(at, at + DIMENSION);
  };
  const people = Array.from({ length: PEOPLE }, (_, person) => `${idOf(person)},${nameOf(person)},${sinceOf(person)}`);
  await makePrivateFolder(folder);
  const write = (
    name: string,
    content: (file: Parameters<Parameters<typeof writePrivately>[2]>[0]) => Promise<unknown>,
  ) => writePrivately(join(folder, name), { replace: false }, async (file) => void (await content(file)));
  await write(FACES, (file) => writeNpy(file, DIMENSION, vectorsOf(world.gallery().vectors)));
  await write(ABOUT, (file) => file.writeFile(['id,name,since', ...people, ''].join('\n')));
  await write(MORE, (file) => writeNpy(file, DIMENSION, vectorsOf(world.probes(probed).vectors)));
}
