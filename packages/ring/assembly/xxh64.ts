// XXH64 (xxHash specification 0.1.1), the checksum of every wire format.

const P1: u64 = 0x9e3779b185ebca87;
const P2: u64 = 0xc2b2ae3d27d4eb4f;
const P3: u64 = 0x165667b19e3779f9;
const P4: u64 = 0x85ebca77c2b2ae63;
const P5: u64 = 0x27d4eb2f165667c5;

@inline
function round(lane: u64, word: u64): u64 {
  return rotl(lane + word * P2, 31) * P1;
}
@inline
function merge(hash: u64, lane: u64): u64 {
  return (hash ^ round(0, lane)) * P1 + P4;
}

/** The state of a hash in progress: four lanes at `state`. Consumes whole stripes of 32 bytes. */
export function xxhStart(state: usize): void {
  store<u64>(state, P1 + P2);
  store<u64>(state, P2, 8);
  store<u64>(state, 0, 16);
  store<u64>(state, 0 - P1, 24);
}

export function xxhStripes(state: usize, at: usize, length: usize): void {
  let a = load<u64>(state);
  let b = load<u64>(state, 8);
  let c = load<u64>(state, 16);
  let d = load<u64>(state, 24);
  for (const end = at + length; at < end; at += 32) {
    a = round(a, load<u64>(at));
    b = round(b, load<u64>(at, 8));
    c = round(c, load<u64>(at, 16));
    d = round(d, load<u64>(at, 24));
  }
  store<u64>(state, a);
  store<u64>(state, b, 8);
  store<u64>(state, c, 16);
  store<u64>(state, d, 24);
}

/** `at` … `at + length` is the tail (length < 32) of a message of `total` bytes; seed 0. */
export function xxhFinish(state: usize, at: usize, length: usize, total: u64): u64 {
  let hash: u64 = P5;
  if (total >= 32) {
    const a = load<u64>(state);
    const b = load<u64>(state, 8);
    const c = load<u64>(state, 16);
    const d = load<u64>(state, 24);
    hash = rotl(a, 1) + rotl(b, 7) + rotl(c, 12) + rotl(d, 18);
    hash = merge(merge(merge(merge(hash, a), b), c), d);
  }
  hash += total;
  const end = at + length;
  for (; at + 8 <= end; at += 8) hash = rotl(hash ^ round(0, load<u64>(at)), 27) * P1 + P4;
  if (at + 4 <= end) {
    hash = rotl(hash ^ (<u64>load<u32>(at) * P1), 23) * P2 + P3;
    at += 4;
  }
  for (; at < end; at++) hash = rotl(hash ^ (<u64>load<u8>(at) * P5), 11) * P1;
  hash = (hash ^ (hash >> 33)) * P2;
  hash = (hash ^ (hash >> 29)) * P3;
  return hash ^ (hash >> 32);
}
