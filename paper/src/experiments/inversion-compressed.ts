// Whether compression protects, as the paper's security analysis thinks possible: what comes back
// of a face that was compressed, for whoever has stolen the compressed vector, and for whoever
// knows scores and some probes.

import type { MethodName } from '@hers/training';
import { unitVectors } from '@hers/vectors/accuracy';
import { FULL } from '../data/compressor-looks.ts';
import {
  COMPRESSORS_OPTION,
  compressed,
  compressorsOf,
  fittedCompressor,
  fittingOf,
  MODELS_OPTION,
  STEPS_OPTION,
  stepsOf,
} from '../data/compressors.ts';
import { againWith, DATA_OPTION, DIMENSIONS_OPTION, datasetOf, SPLIT_OPTION, splitOf } from '../data/data.ts';
import { type Part, splitByLabel } from '../data/datasets.ts';
import { type Data, type Experiment, type Figure, record } from '../lab/experiment.ts';
import { progress } from '../lab/report.ts';
import { type Values, wholeNumber, wholeNumbers } from '../lab/runner.ts';
import { attackCompressed, type CompressedAttack } from '../security/compressed.ts';
import { type Campaign, campaign, guesses } from '../security/score-attacks.ts';

export interface InversionCompressedParameters {
  readonly data: string;
  readonly split: string;
  readonly dimension: number;
  readonly probes: number;
  /** With a key each. */
  readonly galleries: number;
  readonly compressors: readonly string[];
  readonly dimensions: readonly number[];
  /** What networks were trained for, where there are some. */
  readonly steps?: number;
}

export const inversionCompressed: Experiment = {
  name: 'inversion-compressed',
  summary: 'what comes back of a face that was compressed: from the vector itself, and from scores',
  options: {
    data: DATA_OPTION,
    split: SPLIT_OPTION,
    models: MODELS_OPTION,
    compressors: { ...COMPRESSORS_OPTION, help: 'which to undo, with commas between them (pca,lda,deepmds++)' },
    dimensions: DIMENSIONS_OPTION,
    steps: STEPS_OPTION,
    probes: { type: 'string', help: 'probes to attack (200)' },
  },
  async measure(values): Promise<Data<InversionCompressedParameters>> {
    const small = values.small === true;
    const split = splitOf(values);
    const data = await datasetOf('faces', values);
    const { training, held } = splitByLabel(data, split);
    const compressors = compressorsOf(values, small ? ['pca'] : ['pca', 'lda', 'deepmds++']);
    const dimensions = wholeNumbers(values.dimensions, small ? [8, 4] : [64, 32, 16]);
    const from = campaign(held, training, {
      probes: wholeNumber(values, 'probes', small ? 7 : 200),
      templates: 16 * data.dimension,
      ...{ examples: 4, rehearsals: 2 },
    });
    const results = await undoing(from, compressors, dimensions, values);
    const guess = guesses(from);
    results.push(
      { name: 'guess-mean', value: guess.mean, unit: 'cosine', source: 'measured' },
      { name: 'guess-identified', value: guess.person, unit: 'of probes', source: 'computed' },
    );
    const parameters: InversionCompressedParameters = {
      ...{ data: data.source, split, dimension: data.dimension },
      probes: from.groups.reduce((sum, group) => sum + group.length, 0),
      galleries: from.groups.length,
      ...{ compressors, dimensions },
      ...(compressors.some((name) => name.startsWith('deepmds')) ? { steps: stepsOf(values) } : {}),
    };
    return record('inversion-compressed', values, { parameters, results }, againWith(values));
  },
};

/** Uncompressed first: the same attackers, for comparison. */
async function undoing(
  from: Campaign,
  compressors: readonly MethodName[],
  dimensions: readonly number[],
  values: Values,
): Promise<Figure[]> {
  const { held, training } = from;
  progress('undoing nothing');
  const results = attackCompressed(from, { held, training }).flatMap((attack) =>
    figuresOf(`${FULL}-${held.dimension}`, attack),
  );
  for (const name of compressors)
    for (const dimension of dimensions) {
      const compressor = await fittedCompressor(name, training, { dimension, ...fittingOf(values, name) });
      // Of unit length, as the cosine compares them.
      const short = async (part: Part): Promise<Part> => {
        const { vectors, ...rest } = await compressed(part, (given) => compressor.transform(given));
        return { ...rest, vectors: unitVectors(vectors, dimension) };
      };
      progress(`undoing ${name} to ${dimension} dimensions`);
      const parts = { held: await short(held), training: await short(training) };
      for (const attack of attackCompressed(from, parts)) results.push(...figuresOf(`${name}-${dimension}`, attack));
    }
  return results;
}

function figuresOf(name: string, attack: CompressedAttack): Figure[] {
  const known = `${name}-${attack.known ?? 'stolen'}`;
  const measured = { source: 'measured' as const };
  return [
    { name: known, value: attack.cosine, unit: 'cosine', ...measured },
    { name: `${known}-interval`, value: 1.96 * attack.error, unit: 'cosine', ...measured },
    { name: `${known}-compressed`, value: attack.compressed, unit: 'cosine', ...measured },
    { name: `${known}-identified`, value: attack.identified, unit: 'of probes', ...measured },
  ];
}
