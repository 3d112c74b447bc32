// SPDX-License-Identifier: Apache-2.0
// A run of combinations of hints, summed up so that runs can be joined.
#pragma once

#include <algorithm>

#include "numa_internal.hpp"

namespace koord::numa {

/// A sequence of combinations of one class, in order, none at all if `any` is false.
struct Run {
  bool any = false;
  bool unsatisfied = false;  ///< of the winner
  Mask lowest = 0;
  Mask mask = 0;  ///< of the winner
  std::int64_t highest = 0;
  std::int64_t score = 0;  ///< of the winner

  static Run single(Mask mask) { return {true, false, mask, mask, 0, 0}; }

  /// These combinations, each with one more hint in front.
  [[nodiscard]] Run behind(std::int64_t more_score, bool hint_unsatisfied) const {
    return {any,
            unsatisfied || hint_unsatisfied,
            lowest,
            mask,
            highest + more_score,
            score + more_score};
  }

  /// These combinations, then those of `later`.
  void join(const Run& later) {
    if (!later.any) return;
    if (!any || later.lowest < mask || later.highest > score) {
      unsatisfied = later.unsatisfied;
      mask = later.mask;
      score = later.score;
    }
    lowest = any ? std::min(lowest, later.lowest) : later.lowest;
    highest = any ? std::max(highest, later.highest) : later.highest;
    any = true;
  }
};

/// What earlier combinations need to know of a run: whether it replaces them. Costs far less to
/// find than the run's winner.
struct Bounds {
  bool any = false;
  Mask lowest = 0;
  std::int64_t highest = 0;

  /// Whether none of these combinations replaces one with this mask and score.
  [[nodiscard]] bool leave(Mask mask, std::int64_t score) const {
    return !any || (mask <= lowest && score >= highest);
  }

  void join(const Bounds& other) {
    if (!other.any) return;
    lowest = any ? std::min(lowest, other.lowest) : other.lowest;
    highest = any ? std::max(highest, other.highest) : other.highest;
    any = true;
  }
};

/// A merged mask of `size` zones fits a member exactly only if the member has that many too.
inline bool unsatisfied_at(const Hint& hint, int size) {
  return hint.unsatisfied || (hint.affinity && width(*hint.affinity) != size);
}

}  // namespace koord::numa
