// Real embeddings for experiments, read from a folder outside this repository. Neither the data nor
// weights fitted on it are kept here.

import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { HersError } from '@hers/client';
import { matedPlaces, rowsAt, unitVectors } from '@hers/vectors/accuracy';
import { ByteSource, openNpy, readLabels } from '@hers/vectors/npy';

export type DatasetName = 'faces' | 'text' | 'pictures';

export interface Dataset {
  readonly name: DatasetName;
  /** What it is and where it comes from, for readers of the figures. */
  readonly source: string;
  /** At unit length, one after the other. */
  readonly vectors: Float32Array;
  readonly dimension: number;
  readonly labels: Int32Array;
}

interface Files {
  readonly file: string;
  /** Each row is stored as integers times a scale of its own. */
  readonly scale?: string;
  readonly labels: string;
  /** Labels as consecutive numbers. */
  readonly source: (counted: { vectors: string; labels: string; dimensions: string }) => string;
}

const FILES: Readonly<Record<DatasetName, Files>> = {
  faces: {
    file: 'faces-lfw-arcface128.npy',
    labels: 'faces-lfw-arcface128.labels.npy',
    source: ({ vectors, labels, dimensions }) =>
      `Labeled Faces in the Wild: ${vectors} pictures of ${labels} people, ${dimensions} dimensions by an ArcFace-trained MobileFaceNet`,
  },
  text: {
    file: 'text-clinc150-use512.npy',
    labels: 'text-clinc150-use512.labels.npy',
    source: ({ vectors, labels, dimensions }) =>
      `CLINC150: ${vectors} questions of ${labels} intents, ${dimensions} dimensions by the Universal Sentence Encoder (lite)`,
  },
  pictures: {
    file: 'images-tinyimagenet-resnet50-2048.u8.npy',
    scale: 'images-tinyimagenet-resnet50-2048.scale.npy',
    labels: 'images-tinyimagenet-resnet50-2048.labels.npy',
    source: ({ vectors, labels, dimensions }) =>
      `Tiny-ImageNet, its validation set: ${vectors} pictures of ${labels} classes, ${dimensions} dimensions by a ResNet-50`,
  },
};

/** Opens a file of the folder. If it is missing, the error says what to do. */
async function openFile(folder: string, file: string): Promise<ByteSource> {
  const path = join(folder, file);
  const about = await stat(path).catch(() => undefined);
  if (!about?.isFile())
    throw new HersError('NOT_FOUND', `${file} is not in ${folder}; name the folder with the data sets by --data`);
  return new ByteSource(file, createReadStream(path, { highWaterMark: 2 ** 20 }), about.size);
}

async function readMatrix(folder: string, file: string) {
  const source = await openFile(folder, file);
  try {
    const { rows, columns, vectors } = await openNpy(source);
    const all = new Float32Array(rows * columns);
    let row = 0;
    for await (const vector of vectors()) all.set(vector, row++ * columns);
    return { rows, columns, all };
  } finally {
    await source.close();
  }
}

export async function loadDataset(name: DatasetName, folder: string): Promise<Dataset> {
  const { file, scale, labels: labelFile, source } = FILES[name];
  const { rows, columns, all } = await readMatrix(folder, file);
  const labelSource = await openFile(folder, labelFile);
  const labels = await readLabels(labelSource).finally(() => labelSource.close());
  if (labels.length !== rows)
    throw new HersError('MALFORMED', `${labelFile} holds ${labels.length} labels for ${rows} vectors`);
  if (scale !== undefined) {
    const { all: scales } = await readMatrix(folder, scale);
    if (scales.length !== rows)
      throw new HersError('MALFORMED', `${scale} holds ${scales.length} scales for ${rows} vectors`);
    for (let i = 0; i < all.length; i++) all[i] *= scales[Math.floor(i / columns)];
  }
  const counted = { vectors: spaced(rows), labels: spaced(new Set(labels).size), dimensions: spaced(columns) };
  return { name, source: source(counted), vectors: unitVectors(all, columns), dimension: columns, labels };
}

/** @example spaced(13221) // '13 221' */
const spaced = (count: number) => count.toLocaleString('en-GB').replaceAll(',', ' ');

/**
 * `validation`: for choosing, within the odd labels. `test`: for the report, fitted on the odd
 * labels and measured on the even ones.
 */
export type Split = 'validation' | 'test';

export interface Part {
  readonly vectors: Float32Array;
  readonly dimension: number;
  readonly labels: Int32Array;
}

/**
 * Fits on some labels and measures on others, so that no person and no class is in both. Refuses
 * data that leaves nothing to fit on or to find.
 */
export function splitByLabel({ vectors, dimension, labels }: Part, split: Split): { training: Part; held: Part } {
  const places = (wanted: (label: number) => boolean) => {
    const found: number[] = [];
    for (let i = 0; i < labels.length; i++) if (wanted(labels[i])) found.push(i);
    return found;
  };
  const part = (at: readonly number[]): Part => ({
    vectors: rowsAt(vectors, dimension, at),
    dimension,
    labels: Int32Array.from(at, (i) => labels[i]),
  });
  // Bits rather than remainders, because labels may be negative.
  const parts =
    split === 'test'
      ? { training: part(places((label) => (label & 1) === 1)), held: part(places((label) => (label & 1) === 0)) }
      : { training: part(places((label) => (label & 3) === 1)), held: part(places((label) => (label & 3) === 3)) };
  requireEnough(parts.training, parts.held, split);
  return parts;
}

function requireEnough(training: Part, held: Part, split: Split): void {
  const said = (remainder: number) => (split === 'test' ? (remainder === 1 ? 'odd' : 'even') : `4n + ${remainder}`);
  if (training.labels.length === 0)
    throw new RangeError(
      `The ${split} split has nothing to fit on: there are no vectors with a label that is ${said(1)}`,
    );
  if (held.labels.length === 0)
    throw new RangeError(
      `The ${split} split has nothing to measure on: there are no vectors with a label that is ${said(split === 'test' ? 0 : 3)}`,
    );
  const mated = new Set(Array.from(matedPlaces(held.labels), (place) => held.labels[place])).size;
  if (mated < 2)
    throw new RangeError(
      `The ${split} split has too little to find: of its ${held.labels.length} vectors to measure on, ${mated === 0 ? 'no two have the same label' : 'only those of one label have a mate'}`,
    );
}

/** A part, in the words of a sentence. */
export function described({ labels }: Part, what: string): string {
  return `${labels.length.toLocaleString('en-GB')} vectors of ${new Set(labels).size.toLocaleString('en-GB')} ${what}`;
}
