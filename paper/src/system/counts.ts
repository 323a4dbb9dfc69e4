// Homomorphic operations, counted where they happen and nowhere else: the columns of the paper's
// Table 2, and relinearisations, which it counts as a part of a multiplication.

export interface Counts {
  multiplications: number;
  additions: number;
  rotations: number;
  relinearisations: number;
}

export function noCounts(): Counts {
  return { multiplications: 0, additions: 0, rotations: 0, relinearisations: 0 };
}

/** What has been sent and stored, in bytes. */
export interface Traffic {
  keys: number;
  /** Enrolments received. */
  uploads: number;
  queries: number;
  responses: number;
}
