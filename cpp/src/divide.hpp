// SPDX-License-Identifier: Apache-2.0
// Division of whole numbers where it is most of the work.
#pragma once

#include <cstdint>

namespace koord {

/// dividend / divisor, truncated, for a divisor other than 0. Numbers that doubles hold exactly are
/// divided as doubles, which is some times faster and gives the same: a quotient that is short of a
/// whole number is so by more than a rounding.
[[nodiscard]] inline std::int64_t divide(std::int64_t dividend, std::int64_t divisor) {
  constexpr std::int64_t kExact = std::int64_t{1} << 53;
  if (dividend < 0 || dividend >= kExact || divisor < 1 || divisor >= kExact) {
    return dividend / divisor;
  }
  return static_cast<std::int64_t>(static_cast<double>(dividend) / static_cast<double>(divisor));
}

}  // namespace koord
