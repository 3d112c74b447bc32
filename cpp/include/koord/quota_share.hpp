// SPDX-License-Identifier: Apache-2.0
// How one parent's amount of one resource is shared among its children: the water-filling that the
// quota tree repeats on every level, usable on its own.
//
// The rule is Koordinator's runtime quota: every child first keeps its floor (the larger of its
// minimum and its guarantee; a child that asks for less lends the rest), what is left goes to those
// that ask for more, in proportion to weight, split exactly by largest remainder with ties in name
// order, and comes back for another round where a child asked for less than its portion. Classes of
// a higher priority are filled before lower ones; with one class this is the canonical rule.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "koord/error.hpp"

namespace koord::quota {

/// Sums of int64 amounts; cannot overflow for any number of groups that fits into memory.
__extension__ using Sum = __int128;

/// The nearest int64.
[[nodiscard]] KOORD_API std::int64_t saturate(Sum value) noexcept;

/// The children of one parent, one column a property; all spans have the same length.
struct Siblings {
  std::span<const std::int64_t> weight;    ///< >= 0; with 0 a child gets its floor and no more
  std::span<const std::int64_t> request;   ///< what the child asks for, limited by its maximum
  std::span<const std::int64_t> floor;     ///< max(minimum, guarantee)
  std::span<const std::uint8_t> lends;     ///< 1: an unused part of the floor goes to others
  std::span<const std::int32_t> priority;  ///< higher is filled first
  std::span<const std::uint32_t> rank;     ///< place in name order; settles ties
};

/// One round of the filling, for an explanation.
struct Round {
  std::int32_t priority = 0;
  std::int64_t pool = 0;             ///< what this round hands out
  Sum weight = 0;                    ///< sum of the weights that take part
  std::vector<std::uint32_t> child;  ///< index among the siblings
  std::vector<std::int64_t> grant;   ///< what each got, before the surplus went back
};

/// Shares amounts among siblings. Keeps its working memory between calls; not thread-safe.
class KOORD_API WaterFill {
 public:
  /// Writes each child's runtime; `runtime` has the siblings' length. Returns what stays idle, 0 if
  /// the floors alone take the total or more. `rounds`, where given, is appended to.
  std::int64_t run(std::int64_t total, const Siblings& siblings, std::span<std::int64_t> runtime,
                   std::vector<Round>* rounds = nullptr);

 private:
  struct Claim {
    std::uint32_t child;
    std::int64_t grant;
    Sum remainder;
  };
  void collect(const Siblings& siblings);
  static Sum split(std::int64_t pool, std::span<Claim> claims, const Siblings& siblings);
  std::int64_t fill(std::int64_t pool, std::span<Claim> claims, const Siblings& siblings,
                    std::span<std::int64_t> runtime, std::vector<Round>* rounds);
  std::vector<Claim> claims_;
};

/// The minimum of a child of a parent that cannot cover the minimums of its children: `left` (what
/// is there after the minimums that may not shrink) in proportion to the child's share of `sum`,
/// the minimums that may. In IEEE double, left to right, so that it agrees with Koordinator to the
/// last unit.
[[nodiscard]] KOORD_API std::int64_t scaled_min(Sum left, std::int64_t min, Sum sum) noexcept;

}  // namespace koord::quota
