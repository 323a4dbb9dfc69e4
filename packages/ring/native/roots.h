// Complex roots for the transform of points.h, made once for a ring. Not for the variants, which
// are compiled for instruction sets that the machine may lack: they share no inline function.

#pragma once

#include <cmath>
#include <cstddef>
#include <initializer_list>
#include <utility>
#include <vector>

#include "ring.h"

namespace hers {

/**
 * x^N − e^(iθ_k) is the product of x^(N/2) ∓ w_k, with w_k = e^(iθ_k/2). The root of the tree is
 * k = 1 with θ_1 = π/2, and k has the children 2k and 2k + 1.
 */
class RootTables {
 public:
  /** For N = n/2 points, in vectors of so many doubles. */
  RootTables(size_t n, size_t lanes) : re_(n / 2), im_(n / 2) {
    const size_t points = n / 2;
    // θ_k/2π, exact: it has as many bits as k.
    std::vector<double> turns(points);
    turns[1] = 0.25;
    for (size_t k = 1; k < points; k++) {
      set(k, turns[k] / 2);
      if (2 * k < points) turns[2 * k] = turns[k] / 2, turns[2 * k + 1] = turns[k] / 2 + 0.5;
    }
    for (size_t window = 0; window < points / (2 * lanes); window++)
      for (size_t t = lanes / 2; t > 0; t /= 2)
        for (const auto* part : {&re_, &im_})
          for (size_t lane = 0; lane < lanes; lane++) spread_.push_back((*part)[(points / 2 + window * lanes) / t + lane / t]);
  }

  Roots roots() const { return {re_.data(), im_.data(), spread_.data()}; }

 private:
  /** e^(2πi·turn), turn < 1/2, from an angle of at most π/4; rounded once. */
  void set(size_t k, double turn) {
    const bool isBack = turn > 0.25;
    if (isBack) turn -= 0.25;
    const bool isSteep = turn > 0.125;
    const long double angle = 6.283185307179586476925286766559L * (isSteep ? 0.25 - turn : turn);
    double c = static_cast<double>(std::cos(angle)), s = static_cast<double>(std::sin(angle));
    if (isSteep) std::swap(c, s);
    re_[k] = isBack ? -s : c;
    im_[k] = isBack ? c : s;
  }

  std::vector<double> re_, im_, spread_;
};

}  // namespace hers
