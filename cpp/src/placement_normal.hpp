// SPDX-License-Identifier: Apache-2.0
// Scores of 0..100 from raw ones and their bounds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

#include "koord/placement_board.hpp"

namespace koord::placement {

inline constexpr std::int64_t kLowest = std::numeric_limits<std::int64_t>::min();
inline constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();

// Divides by one number over and over: 100 * amount / whole, truncated, for 0 <= amount <= whole.
// A multiplication by the reciprocal is a fraction of a division; it may miss by one, and is put
// right in integers.
class Percent {
 public:
  explicit Percent(std::int64_t whole)
      : whole_(whole), factor_(100.0 / static_cast<double>(whole)) {}

  std::int64_t operator()(std::int64_t amount) const {
    if (whole_ >= kWide) return wide(amount);
    auto found = static_cast<std::int64_t>(static_cast<double>(amount) * factor_);
    const std::int64_t rest = amount * 100 - found * whole_;
    found += static_cast<std::int64_t>(rest >= whole_);
    found -= static_cast<std::int64_t>(rest < 0);
    return found;
  }

 private:
  static constexpr std::int64_t kWide = std::int64_t{1} << 46;

  // In two digits of base 10, so that nothing overflows below 2^59.
  [[nodiscard]] std::int64_t wide(std::int64_t amount) const {
    const std::int64_t tens = amount * 10 / whole_;
    return tens * 10 + (amount * 10 % whole_) * 10 / whole_;
  }

  std::int64_t whole_;
  double factor_;
};

inline std::int64_t percent(std::int64_t amount, std::int64_t whole) {
  return Percent(whole)(amount);
}

// Whether a raw score counts towards bounds.
inline bool counts(Normalization kind, std::int64_t raw) {
  return kind != Normalization::kSpread || raw >= 0;
}

// Calls use(score) with a function that turns raw scores into 0..100, given the least and the most
// of those that count: what the kind of normalisation decides is decided once.
template <class Use>
void normalising(Normalization kind, std::int64_t least, std::int64_t most, const Use& use) {
  switch (kind) {
    case Normalization::kNone:
      return use([](std::int64_t raw) { return raw; });
    case Normalization::kDefault: {
      if (most <= 0) return use([](std::int64_t) { return std::int64_t{0}; });
      const Percent of(most);
      return use([of](std::int64_t raw) { return of(std::max<std::int64_t>(raw, 0)); });
    }
    case Normalization::kReversed: {
      if (most <= 0) return use([](std::int64_t) { return std::int64_t{100}; });
      const Percent of(most);
      return use([of](std::int64_t raw) { return 100 - of(std::max<std::int64_t>(raw, 0)); });
    }
    case Normalization::kMinMax: {
      if (most <= least) return use([](std::int64_t) { return std::int64_t{0}; });
      const Percent of(most - least);
      return use([of, least](std::int64_t raw) { return of(raw - least); });
    }
    case Normalization::kSpread: {
      if (most <= 0) {
        return use([](std::int64_t raw) { return raw < 0 ? std::int64_t{0} : std::int64_t{100}; });
      }
      const Percent of(most);
      const std::int64_t both = most + least;
      return use([of, both](std::int64_t raw) { return raw < 0 ? 0 : of(both - raw); });
    }
  }
}

}  // namespace koord::placement
