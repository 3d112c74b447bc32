// SPDX-License-Identifier: Apache-2.0
#include "koord/quota_share.hpp"

#include <algorithm>
#include <limits>

#include "quota_divide.hpp"

namespace koord::quota {
namespace {

/// What a child holds before anything is handed out.
std::int64_t base_share(const Siblings& siblings, std::size_t i) {
  const bool lent = siblings.request[i] <= siblings.floor[i] && siblings.lends[i] != 0;
  return lent ? siblings.request[i] : siblings.floor[i];
}

}  // namespace

std::int64_t saturate(Sum value) noexcept {
  using Limits = std::numeric_limits<std::int64_t>;
  return static_cast<std::int64_t>(std::clamp<Sum>(value, Limits::min(), Limits::max()));
}

std::int64_t scaled_min(Sum left, std::int64_t min, Sum sum) noexcept {
  if (left <= 0 || sum <= 0) return 0;
  const double share =
      static_cast<double>(left) * static_cast<double>(min) / static_cast<double>(sum);
  // Near 2^63 rounding may lead beyond the minimum itself, and out of the integers.
  return share < static_cast<double>(min) ? static_cast<std::int64_t>(share) : min;
}

/// The hungry children with a weight, highest priority first.
void WaterFill::collect(const Siblings& siblings) {
  claims_.clear();
  bool one_class = true;
  for (std::uint32_t i = 0; i < siblings.request.size(); ++i) {
    if (siblings.request[i] <= siblings.floor[i] || siblings.weight[i] <= 0) continue;
    claims_.push_back({i, 0, 0});
    one_class = one_class && siblings.priority[i] == siblings.priority[claims_.front().child];
  }
  if (one_class) return;
  std::stable_sort(claims_.begin(), claims_.end(), [&](const Claim& a, const Claim& b) {
    return siblings.priority[a.child] > siblings.priority[b.child];
  });
}

std::int64_t WaterFill::run(std::int64_t total, const Siblings& siblings,
                            std::span<std::int64_t> runtime, std::vector<Round>* rounds) {
  Sum left = total;
  for (std::size_t i = 0; i < runtime.size(); ++i) {
    runtime[i] = base_share(siblings, i);
    left -= runtime[i];
  }
  if (left <= 0) return 0;
  // What is held is never negative, so the pool is no larger than the total.
  std::int64_t pool = static_cast<std::int64_t>(left);
  collect(siblings);
  for (auto begin = claims_.begin(); begin != claims_.end() && pool > 0;) {
    const std::int32_t priority = siblings.priority[begin->child];
    const auto end = std::find_if(begin, claims_.end(), [&](const Claim& claim) {
      return siblings.priority[claim.child] != priority;
    });
    pool = fill(pool, {begin, end}, siblings, runtime, rounds);
    begin = end;
  }
  return pool;
}

/// Splits the pool exactly by weight: the units left after rounding down go to the largest
/// remainders. Returns the sum of the weights.
Sum WaterFill::split(std::int64_t pool, std::span<Claim> claims, const Siblings& siblings) {
  Sum weight = 0;
  for (const Claim& claim : claims) weight += siblings.weight[claim.child];
  std::int64_t residual = pool;
  const Divider divide(pool, weight);
  for (Claim& claim : claims) {
    const Portion portion = divide(siblings.weight[claim.child]);
    claim.grant = portion.grant;
    claim.remainder = portion.remainder;
    residual -= claim.grant;
  }
  // Each remainder is below the weight, so the residual is below the number of claims.
  const auto extra = claims.begin() + residual;
  std::nth_element(claims.begin(), extra, claims.end(), [&](const Claim& a, const Claim& b) {
    if (a.remainder != b.remainder) return a.remainder > b.remainder;
    return siblings.rank[a.child] < siblings.rank[b.child];
  });
  std::for_each(claims.begin(), extra, [](Claim& claim) { ++claim.grant; });
  return weight;
}

/// Rounds of one priority class; returns what none of it asked for.
std::int64_t WaterFill::fill(std::int64_t pool, std::span<Claim> claims, const Siblings& siblings,
                             std::span<std::int64_t> runtime, std::vector<Round>* rounds) {
  while (pool > 0 && !claims.empty()) {
    const Sum weight = split(pool, claims, siblings);
    if (rounds != nullptr) {
      Round& round = rounds->emplace_back();
      round.priority = siblings.priority[claims.front().child];
      round.pool = pool;
      round.weight = weight;
      for (const Claim& claim : claims) {
        round.child.push_back(claim.child);
        round.grant.push_back(claim.grant);
      }
    }
    pool = 0;
    const auto sated = std::partition(claims.begin(), claims.end(), [&](const Claim& claim) {
      return claim.grant < siblings.request[claim.child] - runtime[claim.child];
    });
    for (const Claim& claim : claims) runtime[claim.child] += claim.grant;
    for (auto claim = sated; claim != claims.end(); ++claim) {
      pool += runtime[claim->child] - siblings.request[claim->child];
      runtime[claim->child] = siblings.request[claim->child];
    }
    claims = claims.first(static_cast<std::size_t>(sated - claims.begin()));
  }
  return pool;
}

}  // namespace koord::quota
