// ChaCha20 (RFC 8439), W blocks side by side: the expandable generator of ring and of scan. To be
// included behind the vectors, whose interface packages/scan/native/lanes_generic.h describes.

#pragma once

#include <cstdint>

namespace {

template <int a, int b, int c, int d>
inline void quarterRound(Lanes::U (&x)[16]) {
  using L = Lanes;
  x[a] = L::add(x[a], x[b]), x[d] = L::rotate<16>(L::bitXor(x[d], x[a]));
  x[c] = L::add(x[c], x[d]), x[b] = L::rotate<12>(L::bitXor(x[b], x[c]));
  x[a] = L::add(x[a], x[b]), x[d] = L::rotate<8>(L::bitXor(x[d], x[a]));
  x[c] = L::add(x[c], x[d]), x[b] = L::rotate<7>(L::bitXor(x[b], x[c]));
}

/** W blocks of 16 words, from the number in the state on, which it does not change. */
inline void keystream(uint32_t* out, const uint32_t (&state)[16]) {
  using L = Lanes;
  const L::U counter = L::add(L::splat(state[12]), L::iota());
  L::U x[16];
  for (int i = 0; i < 16; i++) x[i] = i == 12 ? counter : L::splat(state[i]);
  for (int round = 0; round < 10; round++) {
    quarterRound<0, 4, 8, 12>(x);
    quarterRound<1, 5, 9, 13>(x);
    quarterRound<2, 6, 10, 14>(x);
    quarterRound<3, 7, 11, 15>(x);
    quarterRound<0, 5, 10, 15>(x);
    quarterRound<1, 6, 11, 12>(x);
    quarterRound<2, 7, 8, 13>(x);
    quarterRound<3, 4, 9, 14>(x);
  }
  for (int i = 0; i < 16; i++) x[i] = L::add(x[i], i == 12 ? counter : L::splat(state[i]));
  L::storeTransposed(x, out);
}

}  // namespace
