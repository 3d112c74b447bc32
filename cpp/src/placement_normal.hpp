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

// 100 * amount / whole, truncated, for 0 <= amount <= whole. A division in double costs a fraction
// of one in integers. Below 2^46 both operands are exact in double, and a quotient that is not a
// whole number is at least 2^-46 from one, which no rounding up to 100 bridges.
inline std::int64_t percent(std::int64_t amount, std::int64_t whole) {
  if (whole < std::int64_t{1} << 46) {
    return static_cast<std::int64_t>(static_cast<double>(amount * 100) /
                                     static_cast<double>(whole));
  }
  // In two digits of base 10, so that nothing overflows below 2^59.
  const std::int64_t tens = amount * 10 / whole;
  return tens * 10 + (amount * 10 % whole) * 10 / whole;
}

// Whether a raw score counts towards bounds.
inline bool counts(Normalization kind, std::int64_t raw) {
  return kind != Normalization::kSpread || raw >= 0;
}

// A raw score among others of which these are the least and the most.
inline std::int64_t normalised(Normalization kind, std::int64_t raw, std::int64_t least,
                               std::int64_t most) {
  switch (kind) {
    case Normalization::kNone:
      return raw;
    case Normalization::kDefault:
      return most <= 0 ? 0 : percent(std::max<std::int64_t>(raw, 0), most);
    case Normalization::kReversed:
      return most <= 0 ? 100 : 100 - percent(std::max<std::int64_t>(raw, 0), most);
    case Normalization::kMinMax:
      return most <= least ? 0 : percent(raw - least, most - least);
    case Normalization::kSpread:
      if (raw < 0) return 0;
      return most <= 0 ? 100 : percent(most + least - raw, most);
  }
  return 0;
}

}  // namespace koord::placement
