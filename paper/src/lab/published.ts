// Figures printed in the paper, which ours stand beside. "Table" and "section" are the paper's.

/**
 * Table 1: seconds for a gallery of a million. Six other systems are cited by marks whose
 * bibliography is not at hand.
 */
export const TABLE_1 = {
  boddeti: { seconds: 10_000, clock: '3.3 GHz' },
  others: { least: 500, most: 12_700_000 },
} as const;

/** Its own figure, in a footnote: 128 dimensions, one thread at 3.3 GHz. */
export const TABLE_1_HERS = { seconds: 300, dimension: 128, templates: 1_000_000 } as const;

/** Table 3: a gallery of 100 million, on ten cores. */
export const TABLE_3 = {
  templates: 100_000_000,
  cores: 10,
  dimensions: [32, 64, 128, 512],
  hers: {
    32: { seconds: 740, gigabytes: 140 },
    64: { seconds: 1_480, gigabytes: 280 },
    128: { seconds: 2_960, gigabytes: 550 },
    512: { seconds: 12_120, gigabytes: 2_200 },
  } as Readonly<Record<number, { seconds: number; gigabytes: number }>>,
  boddeti: { seconds: 138_250, gigabytes: 9_000 },
} as const;

/**
 * Section "Two Stage Search": 100 million fingerprints on ten cores, 16 dimensions, then the best
 * 10 000 at 192.
 */
export const TWO_STAGE = {
  templates: 100_000_000,
  coarseDimension: 16,
  fineDimension: 192,
  k: 10_000,
  coarseSeconds: 370,
  fineSeconds: 130,
  singleSeconds: 4_500,
} as const;

/**
 * Section "Efficiency": bytes of a probe of 64 dimensions, and of the scores of 100 million
 * templates.
 */
export const COMMUNICATION = {
  dimension: 64,
  hersProbe: 5.9e6,
  boddetiProbe: 19e3,
  templates: 100_000_000,
  response: 100e6,
} as const;

/**
 * What the client does, in section "Efficiency": less than this for the scores of 100 million
 * templates, and one vector through the network that compresses it.
 */
export const CLIENT = { templates: 100_000_000, decryptionSeconds: 1, inferenceSeconds: 0.03 } as const;

/**
 * The ratios of the abstract, the introduction and section "Efficiency", and the dimensions they
 * are of: HERS against Boddeti; fewer dimensions; both; the memory of both; two stages.
 */
export const HEADLINES = {
  encoding: { ratio: 11, dimension: 512 },
  compression: { ratio: 6, dimension: 192, to: 32 },
  both: { ratio: 186, dimension: 32 },
  memory: { ratio: 64, dimension: 32 },
  stages: { ratio: 275, dimension: 192, to: 16 },
} as const;

/** Table 4: rank-1 by DeepMDS++ against the dimension; the first of each is uncompressed. */
export const TABLE_4 = [
  {
    name: 'megaface',
    what: 'faces: FaceScrub against a million distractors of MegaFace, ArcFace',
    ranks: [
      [512, 0.814],
      [256, 0.814],
      [128, 0.79],
      [64, 0.679],
    ],
  },
  {
    name: 'fingerprint',
    what: 'fingerprints: NIST SD4 against 100 million synthetic ones, DeepPrint',
    ranks: [
      [192, 0.923],
      [64, 0.923],
      [32, 0.922],
      [16, 0.786],
    ],
  },
] as const;

/**
 * Table 5: average precision and top-1 accuracy of a linear SVM on 100 classes of ImageNet;
 * uncompressed 0.92 and 86.2 %.
 */
export const TABLE_5 = {
  full: { dimension: 1536, ap: 0.92, top1: 0.862 },
  deepmds: { 128: [0.92, 0.854], 64: [0.89, 0.834], 32: [0.68, 0.661], 16: [0.37, 0.427] },
  'deepmds++': { 128: [0.92, 0.857], 64: [0.91, 0.85], 32: [0.88, 0.818], 16: [0.78, 0.719] },
} as const;

/** Table 6: precision at 10 on the validation set of ImageNet; uncompressed 69.7 %. */
export const TABLE_6 = {
  full: { dimension: 1536, precision: 0.697 },
  /** Whole, without hard mining, and without either (which is DeepMDS). */
  rows: {
    256: [0.676, 0.661, 0.661],
    128: [0.665, 0.641, 0.643],
    64: [0.64, 0.601, 0.589],
    32: [0.576, 0.436, 0.364],
    16: [0.38, 0.17, 0.171],
  },
} as const;

/** Section "Accuracy": estimates of intrinsic dimension by the graph distances of Gong et al. */
export const INTRINSIC = { arcface: 15, deepprint: 5, 'inception-resnet-v2': 6 } as const;
