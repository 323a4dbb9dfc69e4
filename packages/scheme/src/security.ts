// How large a modulus may be (README.md §4): the public tables, and an estimate of our own beside
// them.

/** Largest log2 Q for 128 bits with a uniform ternary secret and σ ≈ 3.2. */
const LIMITS: Record<number, readonly [number, number, number, number]> = {
  1024: [27, 25, 26, 20],
  2048: [54, 51, 53, 40],
  4096: [109, 101, 106, 80],
  8192: [218, 202, 214, 161],
};
const COLUMNS = ['classical2018', 'quantum2018', 'classical2024', 'quantum2024'] as const;

type Column = (typeof COLUMNS)[number];

export interface Security {
  readonly n: number;
  readonly logQ: number;
  /**
   * For each table (HomomorphicEncryption.org 2018; the 2024 guideline): the largest log2 Q, and
   * whether ours is within. 0: n is not in it.
   */
  readonly tables: Readonly<Record<Column, { readonly limit: number; readonly within: boolean }>>;
  /** Within the strictest column, quantum2024. */
  readonly secure: boolean;
  /** Core-SVP bits of the primal attack (0.292·β classical, 0.265·β quantum). */
  readonly coreSvp: { readonly classical: number; readonly quantum: number };
}

/**
 * What the tables and the core-SVP model say about ring dimension n and a modulus of logQ bits.
 *
 * @example securityOf(4096, 109).tables.quantum2024.within // false: the paper's set passes the
 * 2018 classical column only
 */
export function securityOf(n: number, logQ: number): Security {
  const limits = LIMITS[n] ?? [0, 0, 0, 0];
  const tables = Object.fromEntries(COLUMNS.map((name, i) => [name, { limit: limits[i], within: logQ <= limits[i] }]));
  const beta = blockSize(n, logQ);
  return {
    n,
    logQ,
    tables: tables as Security['tables'],
    secure: logQ <= limits[3],
    coreSvp: { classical: Math.floor(0.292 * beta), quantum: Math.floor(0.265 * beta) },
  };
}

/**
 * The smallest BKZ block size β for which the primal attack finds the secret (Alkim et al.,
 * "NewHope", 2016, §6.3): for the best number of samples m, with the secret scaled to the size of
 * the error, σ·√β ≤ δ^(2β−d−1)·Vol^(1/d) where d = m + n + 1.
 */
function blockSize(n: number, logQ: number): number {
  const sigma = Math.sqrt(10.5);
  const scaling = Math.log(sigma / Math.sqrt(2 / 3)); // ternary coordinates are lengthened by this factor
  const logModulus = logQ * Math.LN2;
  const succeeds = (beta: number): boolean => {
    const delta = (Math.log(Math.PI * beta) / beta + Math.log(beta / (2 * Math.PI * Math.E))) / (2 * (beta - 1));
    for (let m = n >> 2; m <= 2 * n; m += Math.max(1, n >> 6)) {
      const d = m + n + 1;
      const volume = (m * logModulus + n * scaling) / d;
      if (Math.log(sigma) + Math.log(beta) / 2 <= (2 * beta - d - 1) * delta + volume) return true;
    }
    return false;
  };
  let low = 50;
  let high = 4 * n;
  if (succeeds(low)) return low;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (succeeds(middle)) high = middle;
    else low = middle;
  }
  return high;
}
