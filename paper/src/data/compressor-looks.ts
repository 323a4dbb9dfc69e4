// Names and looks of compressors, for pages and plots.

/** Uncompressed vectors, in the names of results. */
export const FULL = 'full';

const NAMES: Readonly<Record<string, string>> = {
  [FULL]: 'uncompressed',
  pca: 'PCA',
  lda: 'LDA',
  ranking: 'ranking',
  auto: 'auto',
  deepmds: 'DeepMDS',
  'deepmds++': 'DeepMDS++',
  'deepmds++authors': "DeepMDS++, authors' variant",
};

export const compressorName = (name: string): string => NAMES[name] ?? name;

/** The same colour for the same compressor in every plot (Okabe and Ito's, as for the systems). */
const COLOURS: Readonly<Record<string, string>> = {
  [FULL]: '#000000',
  pca: '#999999',
  lda: '#E69F00',
  ranking: '#009E73',
  deepmds: '#CC79A7',
  'deepmds++': '#D55E00',
  'deepmds++authors': '#56B4E9',
  auto: '#0072B2',
};

export const compressorColours = (names: readonly string[]): string[] =>
  names.map((name) => COLOURS[name] ?? '#000000');

/** The split, in the words of a sentence. */
export function saidSplit(split: string): string {
  return split === 'test'
    ? 'Everything is fitted on the odd labels and measured on the even ones (`--split test`). The even ones have been looked at often while this was built: their figures describe, and confirm nothing.'
    : 'This is the validation split, within the odd labels: for choosing, not for the report.';
}
