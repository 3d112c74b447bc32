// SPDX-License-Identifier: Apache-2.0
// A seeded generator whose numbers are the same on every platform; the standard distributions are
// not.
#pragma once

#include <cstdint>

namespace koord {

/// SplitMix64: one word of state, any seed is good.
class SplitMix64 {
 public:
  explicit SplitMix64(std::uint64_t seed) noexcept : state_(seed) {}

  std::uint64_t next() noexcept {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, bound), without bias; `bound` is at least 1.
  std::uint64_t below(std::uint64_t bound) noexcept {
    __extension__ using Wide = unsigned __int128;
    // The products whose low word falls under this are one too many for some results.
    const std::uint64_t surplus = (0 - bound) % bound;
    Wide product = Wide{next()} * bound;
    while (static_cast<std::uint64_t>(product) < surplus) product = Wide{next()} * bound;
    return static_cast<std::uint64_t>(product >> 64);
  }

 private:
  std::uint64_t state_;
};

}  // namespace koord
