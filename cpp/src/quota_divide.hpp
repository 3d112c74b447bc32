// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "koord/quota_share.hpp"

namespace koord::quota {

struct Portion {
  std::int64_t grant;
  Sum remainder;
};

/// weight * pool divided by the sum of weights.
class Divider {
 public:
  Divider(std::int64_t pool, Sum sum)
      : pool_(pool),
        sum_(sum),
        small_(pool < kSmallPool && sum < kSmallSum),
        each_(static_cast<double>(pool) / static_cast<double>(sum)) {}

  [[nodiscard]] Portion operator()(std::int64_t weight) const {
    if (small_) return by_estimate(weight);
    const Sum product = Sum{weight} * pool_;
    return {static_cast<std::int64_t>(product / sum_), product % sum_};
  }

 private:
  // A division of 128 bits is a call of tens of nanoseconds. In double the grant, which is no
  // larger than the pool, comes out wrong by less than pool * 2^-51 + 1, that is 3 at most. Then
  // the remainder lies within 4 sums of zero: its low 64 bits tell it, and by how much to correct.
  static constexpr std::int64_t kSmallPool = std::int64_t{1} << 52;
  static constexpr std::int64_t kSmallSum = std::int64_t{1} << 60;

  [[nodiscard]] Portion by_estimate(std::int64_t weight) const {
    const auto low = [](auto value) { return static_cast<std::uint64_t>(value); };
    const std::int64_t sum = static_cast<std::int64_t>(sum_);
    auto grant = static_cast<std::int64_t>(static_cast<double>(weight) * each_);
    auto remainder = static_cast<std::int64_t>(low(weight) * low(pool_) - low(grant) * low(sum));
    for (; remainder < 0; remainder += sum) --grant;
    for (; remainder >= sum; remainder -= sum) ++grant;
    return {grant, remainder};
  }

  std::int64_t pool_;
  Sum sum_;
  bool small_;
  double each_;
};

}  // namespace koord::quota
