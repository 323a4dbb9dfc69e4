// The query as it is scanned: slices [slot group][row][B, A][16 lanes], so that what one group
// needs is contiguous over the rows.

/**
 * Moves `count` rows of B and of A (`words` residues each) to their places in the slices of a query
 * of `rows` rows; `out` points to the first of these rows in the slice of group 0. A few rows at a
 * time make runs longer than a cache line.
 */
export function interleave(out: usize, b: usize, a: usize, count: i32, words: i32, rows: i32): void {
  const rowBytes = <usize>words << 2;
  const sliceBytes = <usize>rows << 7;
  for (let group: usize = 0; group < rowBytes; group += 64) {
    let to = out;
    let fromB = b + group;
    let fromA = a + group;
    for (let row = 0; row < count; row++) {
      v128.store(to, v128.load(fromB));
      v128.store(to, v128.load(fromB, 16), 16);
      v128.store(to, v128.load(fromB, 32), 32);
      v128.store(to, v128.load(fromB, 48), 48);
      v128.store(to, v128.load(fromA), 64);
      v128.store(to, v128.load(fromA, 16), 80);
      v128.store(to, v128.load(fromA, 32), 96);
      v128.store(to, v128.load(fromA, 48), 112);
      to += 128;
      fromB += rowBytes;
      fromA += rowBytes;
    }
    out += sliceBytes;
  }
}

/** For rows that come as they are. */
export function copyWords(out: usize, from: usize, count: i32): void {
  memory.copy(out, from, <usize>count << 2);
}
