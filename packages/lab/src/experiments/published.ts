// Figures printed in the paper, which ours stand beside. "Table" and "section" are the paper's.

/** Table 1: seconds for a gallery of a million, as the paper lists them. References are by the marks of its source, which comes without its bibliography. */
export const TABLE_1 = [
  { reference: 'reference rw1', seconds: 13_000, note: '12 dimensions; 2.4 GHz' },
  { reference: 'Boddeti 2018', seconds: 10_000, note: '3.3 GHz' },
  { reference: 'reference rw2', seconds: 12_700_000, note: '3.3 GHz' },
  { reference: 'reference rw3', seconds: 500, note: 'Paillier, the query in the clear; 2.67 GHz' },
  { reference: 'reference rw4', seconds: 850_000, note: '2.5 GHz' },
  { reference: 'reference rw5', seconds: 109_000, note: '3.4 GHz' },
  { reference: 'reference rw6', seconds: 2_000_000, note: '3.4 GHz' },
] as const;

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

/** Section "Two Stage Search": 100 million fingerprints on ten cores, 16 dimensions, then the best 10 000 at 192. */
export const TWO_STAGE = {
  templates: 100_000_000,
  coarseDimension: 16,
  fineDimension: 192,
  k: 10_000,
  coarseSeconds: 370,
  fineSeconds: 130,
  singleSeconds: 4_500,
} as const;

/** Section "Efficiency": bytes of a probe of 64 dimensions, and of the scores of 100 million templates. */
export const COMMUNICATION = {
  dimension: 64,
  hersProbe: 5.9e6,
  boddetiProbe: 19e3,
  templates: 100_000_000,
  response: 100e6,
} as const;
