// What experiments on real embeddings share: the folder of the data, the split, and the substitute
// in the small form.

import { rowsAt } from '@hers/vectors/accuracy';
import { identities } from '@hers/vectors/synthetic';
import { asGiven, type Counts } from '../lab/experiment.ts';
import type { RunnerOption, Values } from '../lab/runner.ts';
import { type Dataset, type DatasetName, loadDataset, type Part, type Split } from './datasets.ts';
import { curvedManifold, FACE_LIKE } from './manifold.ts';

export const DATA_OPTION: RunnerOption = {
  type: 'string',
  help: 'the folder with the data sets; HERS_DATA says it otherwise',
};

export const SPLIT_OPTION: RunnerOption = {
  type: 'string',
  help: 'validation: within the odd labels, for choosing (default). test: fitted on odd, measured on even labels, for the report',
};

export const DIMENSIONS_OPTION: RunnerOption = { type: 'string', help: 'to compress to, with commas between them' };

export function splitOf({ split = 'validation' }: Values): Split {
  if (split === 'validation' || split === 'test') return split;
  throw new RangeError(`${JSON.stringify(split)} is not a split: there are validation and test`);
}

/**
 * The data set of this name; a synthetic one of a few hundred vectors in the small form, unless a
 * folder is named.
 */
export async function datasetOf(name: DatasetName, { data, small }: Values): Promise<Dataset> {
  if (small && data === undefined) return smallDataset(name);
  const folder = data ?? process.env.HERS_DATA;
  if (typeof folder !== 'string')
    throw new RangeError('Name the folder with the data sets by --data, or put it into HERS_DATA');
  return loadDataset(name, folder);
}

/**
 * People or classes on a curved manifold: enough to run every step of an experiment, but its
 * figures mean nothing.
 */
function smallDataset(name: DatasetName): Dataset {
  const dimension = 24;
  const centres = curvedManifold(dimension, { intrinsic: 6, similarity: 0.05 });
  const all = identities(80, 6, dimension, { ...FACE_LIKE, centres }).gallery();
  // Some have only one picture, as most people in the real data do.
  const kept = Array.from(all.labels.keys()).filter((place) => all.labels[place] % 10 > 3 || place % 6 === 0);
  return {
    name,
    source: 'synthetic vectors, to see that the experiment works: its figures mean nothing',
    vectors: rowsAt(all.vectors, dimension, kept),
    dimension,
    labels: Int32Array.from(kept, (place) => all.labels[place]),
  };
}

/** How many vectors, of how many people or classes. */
export function countsOf({ labels }: Part): Counts {
  return { vectors: labels.length, labels: new Set(labels).size };
}

/**
 * The options that run it again. The folder's path, and whether the environment named it, stay
 * private.
 */
export function againWith({ data, ...others }: Values): string {
  const folder = others.small && data === undefined ? '' : '--data <folder> ';
  return `${folder}${asGiven(others)}`.trim();
}
