// ChaCha20 (RFC 8439) keystream, four blocks side by side.

@inline
function rotate16(x: v128): v128 {
  return v128.shuffle<u8>(x, x, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13);
}
@inline
function rotate8(x: v128): v128 {
  return v128.shuffle<u8>(x, x, 3, 0, 1, 2, 7, 4, 5, 6, 11, 8, 9, 10, 15, 12, 13, 14);
}
@inline
function rotate(x: v128, by: i32): v128 {
  return v128.or(i32x4.shl(x, by), i32x4.shr_u(x, 32 - by));
}
/**
 * Four 4×4 words: rows a…d of one quarter of the state become 16 consecutive bytes of each of the
 * four blocks.
 */
@inline
function storeQuarter(out: usize, a: v128, b: v128, c: v128, d: v128): void {
  const ab0 = v128.shuffle<u32>(a, b, 0, 4, 1, 5);
  const ab1 = v128.shuffle<u32>(a, b, 2, 6, 3, 7);
  const cd0 = v128.shuffle<u32>(c, d, 0, 4, 1, 5);
  const cd1 = v128.shuffle<u32>(c, d, 2, 6, 3, 7);
  v128.store(out, v128.shuffle<u64>(ab0, cd0, 0, 2));
  v128.store(out, v128.shuffle<u64>(ab0, cd0, 1, 3), 64);
  v128.store(out, v128.shuffle<u64>(ab1, cd1, 0, 2), 128);
  v128.store(out, v128.shuffle<u64>(ab1, cd1, 1, 3), 192);
}

/** Writes 256·quads bytes of keystream, from block `counter` on, for nonce words (n0, n1, n2). */
export function keystream(out: usize, quads: i32, key: usize, n0: u32, n1: u32, n2: u32, counter: u32): void {
  const c0 = i32x4.splat(0x61707865);
  const c1 = i32x4.splat(0x3320646e);
  const c2 = i32x4.splat(0x79622d32);
  const c3 = i32x4.splat(0x6b206574);
  for (let quad = 0; quad < quads; quad++) {
    const block = i32x4.add(i32x4.splat(counter + 4 * quad), i32x4(0, 1, 2, 3));
    let x0 = c0, x1 = c1, x2 = c2, x3 = c3;
    let x4 = v128.load32_splat(key), x5 = v128.load32_splat(key, 4);
    let x6 = v128.load32_splat(key, 8), x7 = v128.load32_splat(key, 12);
    let x8 = v128.load32_splat(key, 16), x9 = v128.load32_splat(key, 20);
    let xa = v128.load32_splat(key, 24), xb = v128.load32_splat(key, 28);
    let xc = block, xd = i32x4.splat(n0), xe = i32x4.splat(n1), xf = i32x4.splat(n2);
    for (let round = 0; round < 10; round++) {
      x0 = i32x4.add(x0, x4); xc = rotate16(v128.xor(xc, x0)); x8 = i32x4.add(x8, xc); x4 = rotate(v128.xor(x4, x8), 12);
      x1 = i32x4.add(x1, x5); xd = rotate16(v128.xor(xd, x1)); x9 = i32x4.add(x9, xd); x5 = rotate(v128.xor(x5, x9), 12);
      x2 = i32x4.add(x2, x6); xe = rotate16(v128.xor(xe, x2)); xa = i32x4.add(xa, xe); x6 = rotate(v128.xor(x6, xa), 12);
      x3 = i32x4.add(x3, x7); xf = rotate16(v128.xor(xf, x3)); xb = i32x4.add(xb, xf); x7 = rotate(v128.xor(x7, xb), 12);
      x0 = i32x4.add(x0, x4); xc = rotate8(v128.xor(xc, x0)); x8 = i32x4.add(x8, xc); x4 = rotate(v128.xor(x4, x8), 7);
      x1 = i32x4.add(x1, x5); xd = rotate8(v128.xor(xd, x1)); x9 = i32x4.add(x9, xd); x5 = rotate(v128.xor(x5, x9), 7);
      x2 = i32x4.add(x2, x6); xe = rotate8(v128.xor(xe, x2)); xa = i32x4.add(xa, xe); x6 = rotate(v128.xor(x6, xa), 7);
      x3 = i32x4.add(x3, x7); xf = rotate8(v128.xor(xf, x3)); xb = i32x4.add(xb, xf); x7 = rotate(v128.xor(x7, xb), 7);
      x0 = i32x4.add(x0, x5); xf = rotate16(v128.xor(xf, x0)); xa = i32x4.add(xa, xf); x5 = rotate(v128.xor(x5, xa), 12);
      x1 = i32x4.add(x1, x6); xc = rotate16(v128.xor(xc, x1)); xb = i32x4.add(xb, xc); x6 = rotate(v128.xor(x6, xb), 12);
      x2 = i32x4.add(x2, x7); xd = rotate16(v128.xor(xd, x2)); x8 = i32x4.add(x8, xd); x7 = rotate(v128.xor(x7, x8), 12);
      x3 = i32x4.add(x3, x4); xe = rotate16(v128.xor(xe, x3)); x9 = i32x4.add(x9, xe); x4 = rotate(v128.xor(x4, x9), 12);
      x0 = i32x4.add(x0, x5); xf = rotate8(v128.xor(xf, x0)); xa = i32x4.add(xa, xf); x5 = rotate(v128.xor(x5, xa), 7);
      x1 = i32x4.add(x1, x6); xc = rotate8(v128.xor(xc, x1)); xb = i32x4.add(xb, xc); x6 = rotate(v128.xor(x6, xb), 7);
      x2 = i32x4.add(x2, x7); xd = rotate8(v128.xor(xd, x2)); x8 = i32x4.add(x8, xd); x7 = rotate(v128.xor(x7, x8), 7);
      x3 = i32x4.add(x3, x4); xe = rotate8(v128.xor(xe, x3)); x9 = i32x4.add(x9, xe); x4 = rotate(v128.xor(x4, x9), 7);
    }
    storeQuarter(out, i32x4.add(x0, c0), i32x4.add(x1, c1), i32x4.add(x2, c2), i32x4.add(x3, c3));
    storeQuarter(
      out + 16,
      i32x4.add(x4, v128.load32_splat(key)), i32x4.add(x5, v128.load32_splat(key, 4)),
      i32x4.add(x6, v128.load32_splat(key, 8)), i32x4.add(x7, v128.load32_splat(key, 12)),
    );
    storeQuarter(
      out + 32,
      i32x4.add(x8, v128.load32_splat(key, 16)), i32x4.add(x9, v128.load32_splat(key, 20)),
      i32x4.add(xa, v128.load32_splat(key, 24)), i32x4.add(xb, v128.load32_splat(key, 28)),
    );
    storeQuarter(out + 48, i32x4.add(xc, block), i32x4.add(xd, i32x4.splat(n0)), i32x4.add(xe, i32x4.splat(n1)), i32x4.add(xf, i32x4.splat(n2)));
    out += 256;
  }
}
