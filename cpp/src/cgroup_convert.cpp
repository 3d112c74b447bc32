// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "koord/cgroup_parse.hpp"

namespace koord::cgroup {
namespace {

constexpr std::int64_t kWeightSpan = kWeightMax - kWeightMin;
constexpr std::int64_t kSharesSpan = kSharesMax - kSharesMin;

}  // namespace

Result<std::int64_t> shares_to_weight(std::int64_t shares) {
  if (shares < kSharesMin || shares > kSharesMax) {
    return invalid("cpu.shares", std::to_string(shares), "2 to 262144");
  }
  const std::int64_t weight = kWeightMin + (shares - kSharesMin) * kWeightSpan / kSharesSpan;
  return std::clamp(weight, kWeightMin, kWeightMax);
}

Result<std::int64_t> weight_to_shares(std::int64_t weight) {
  if (weight < kWeightMin || weight > kWeightMax) {
    return invalid("cpu.weight", std::to_string(weight), "1 to 10000");
  }
  const std::int64_t shares = (weight - kWeightMin) * kSharesSpan / kWeightSpan + kSharesMin;
  return std::clamp(shares, kSharesMin, kSharesMax);
}

std::int64_t milli_cpu_to_shares(std::int64_t milli) {
  // Beyond this the result is at its maximum anyway; the product must not overflow.
  if (milli > kSharesMax) return kSharesMax;
  return milli <= 0 ? kSharesMin : std::clamp(milli * 1024 / 1000, kSharesMin, kSharesMax);
}

std::int64_t milli_cpu_to_quota_us(std::int64_t milli) {
  constexpr std::int64_t kUsPerMilli = kCfsPeriodUs / 1000;
  if (milli <= 0) return -1;
  if (milli > kInt64Max / kUsPerMilli) return kInt64Max;
  return std::max(milli * kUsPerMilli, kCfsQuotaMinUs);
}

}  // namespace koord::cgroup
