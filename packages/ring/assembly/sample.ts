// Samplers. Each consumes the ChaCha20 stream of (key, domain, index, third); README.md gives the
// exact layout. `bytes` points to work space for the keystream: at least 6n + 256 bytes.

import { keystream } from './chacha';

/**
 * n residues uniform in [0, p): words masked to p's bit length, those not below p discarded. Public
 * or secret output.
 */
export function uniform(out: usize, n: i32, p: u32, bytes: usize, key: usize, domain: u32, index: u32, third: u32): void {
  const mask = <u32>((1 << (32 - clz(p))) - 1);
  const M = i32x4.splat(mask);
  const P = i32x4.splat(p);
  const quads = n >> 6 > 0 ? n >> 6 : 1;
  keystream(bytes, quads, key, domain, index, third, 0);
  let counter = <u32>quads << 2;
  const end = out + (<usize>n << 2);
  let from = bytes;
  let until = bytes + (<usize>quads << 8);
  while (out < end) {
    if (from == until) {
      keystream(bytes, 1, key, domain, index, third, counter);
      counter += 4;
      from = bytes;
      until = bytes + 256;
    }
    const x = v128.and(v128.load(from), M);
    if (out + 16 <= end && i32x4.all_true(i32x4.lt_u(x, P))) {
      v128.store(out, x);
      out += 16;
    } else {
      for (let lane: usize = 0; lane < 16; lane += 4) {
        const word = load<u32>(from + lane) & mask;
        if (word < p && out < end) {
          store<u32>(out, word);
          out += 4;
        }
      }
    }
    from += 16;
  }
}

/**
 * n signed words uniform in {−1, 0, 1}: bytes other than 255, modulo 3. The one branch asks for
 * more keystream.
 */
export function ternary(out: usize, n: i32, bytes: usize, key: usize, domain: u32, index: u32): void {
  let counter: u32 = 0;
  let from = bytes;
  let until = bytes;
  const end = out + (<usize>n << 2);
  while (out < end) {
    if (from == until) {
      keystream(bytes, 1, key, domain, index, 0, counter);
      counter += 4;
      from = bytes;
      until = bytes + 256;
    }
    const byte = <u32>load<u8>(from++);
    const residue = byte - 3 * ((byte * 171) >> 9);
    // 0, 1, 2 → 0, 1, −1; a discarded byte is overwritten because the position does not advance.
    store<i32>(out, <i32>residue - 3 * <i32>(residue >> 1));
    out += <usize>(byte != 255) << 2;
  }
}

/**
 * n signed words, centred binomial with η = 21: sixteen coefficients from six planes of sixteen
 * bytes.
 */
export function centredBinomial(out: usize, n: i32, bytes: usize, key: usize, domain: u32, index: u32): void {
  keystream(bytes, (6 * n + 255) >> 8, key, domain, index, 0, 0);
  const five = i8x16.splat(31);
  for (let i = 0; i < n; i += 16) {
    const plus = i8x16.add(
      i8x16.add(i8x16.popcnt(v128.load(bytes)), i8x16.popcnt(v128.load(bytes, 16))),
      i8x16.popcnt(v128.and(v128.load(bytes, 32), five)),
    );
    const minus = i8x16.add(
      i8x16.add(i8x16.popcnt(v128.load(bytes, 48)), i8x16.popcnt(v128.load(bytes, 64))),
      i8x16.popcnt(v128.and(v128.load(bytes, 80), five)),
    );
    const difference = i8x16.sub(plus, minus);
    const low = i16x8.extend_low_i8x16_s(difference);
    const high = i16x8.extend_high_i8x16_s(difference);
    v128.store(out, i32x4.extend_low_i16x8_s(low));
    v128.store(out, i32x4.extend_high_i16x8_s(low), 16);
    v128.store(out, i32x4.extend_low_i16x8_s(high), 32);
    v128.store(out, i32x4.extend_high_i16x8_s(high), 48);
    bytes += 96;
    out += 64;
  }
}
