// SPDX-License-Identifier: Apache-2.0
// GPUs that lie close together: the deepest part of a machine that holds them, and among equally
// deep ones the part of which most is in use already.
#include <algorithm>
#include <tuple>

#include "devices_view.hpp"

namespace koord::devices {
namespace {

struct Pick {
  MinorMask minors = 0;
  int preferred = 0;  // how many of the minors are preferred ones
  int depth = 0;
  int busy = 0;  // parts on the way from the machine down that are in use
  std::int64_t score = 0;

  [[nodiscard]] bool better_than(const Pick& other) const {
    if (minors == 0) return false;
    if (other.minors == 0) return true;
    return std::tie(preferred, depth, busy, score) >
           std::tie(other.preferred, other.depth, other.busy, other.score);
  }
};

class Search {
 public:
  Search(const Demand& demand, const Offer& offer, const View& view, const Scoring& scoring)
      : demand_(demand), preferred_(offer.preferred), view_(view), scoring_(scoring) {
    // There is no part smaller than a PCIe root; one GPU is one device wherever it sits.
    required_ =
        demand.scope == Scope::kDevice && demand.request.count == 1 ? Scope::kPcie : demand.scope;
  }

  Pick machine(std::span<const NumaGroup> groups) const {
    MinorMask all = 0;
    for (const NumaGroup& group : groups) all |= group.minors;
    return descend(Scope::kNode, all, {}, [&](const Pick& way) {
      Pick best;
      for (const NumaGroup& group : groups) keep_better(best, numa_node(group, way));
      return best;
    });
  }

 private:
  static void keep_better(Pick& best, const Pick& found) {
    if (found.better_than(best)) best = found;
  }

  [[nodiscard]] Pick numa_node(const NumaGroup& group, const Pick& above) const {
    return descend(Scope::kNumaNode, group.minors, above, [&](const Pick& way) {
      Pick best;
      for (const MinorMask pcie : group.pcies) {
        keep_better(best, descend(Scope::kPcie, pcie, way, [](const Pick&) { return Pick{}; }));
      }
      return best;
    });
  }

  // The best of the parts below, or else this part.
  template <class Below>
  [[nodiscard]] Pick descend(Scope level, MinorMask minors, Pick way, Below below) const {
    if (std::popcount(minors) < demand_.request.count) return {};
    ++way.depth;
    if ((minors & view_.used()) != 0) ++way.busy;
    const Pick best = below(way);
    if (required_ > level) return best;
    const bool complete = best.preferred == std::min(std::popcount(preferred_ & view_.fitting()),
                                                     demand_.request.count);
    if (best.minors != 0 && complete) return best;
    const Pick here = take(minors, way);
    return best.minors == 0 || here.preferred > best.preferred ? here : best;
  }

  [[nodiscard]] Pick take(MinorMask minors, const Pick& way) const {
    Pick pick = way;
    MinorMask rest = minors & view_.fitting();
    if (std::popcount(rest) < demand_.request.count) return {};
    if (demand_.shared) {
      pick.minors = best_share(rest, pick.score);
    } else {
      for (std::int32_t i = 0; i < demand_.request.count; ++i) {
        const MinorMask first = (rest & preferred_) != 0 ? rest & preferred_ : rest;
        pick.minors |= first & -first;
        rest &= ~pick.minors;
      }
    }
    pick.preferred = std::popcount(pick.minors & preferred_);
    return pick;
  }

  // One GPU: a preferred one, then by score, then the lowest minor.
  [[nodiscard]] MinorMask best_share(MinorMask rest, std::int64_t& score) const {
    if ((rest & preferred_) != 0) rest &= preferred_;
    MinorMask best = 0;
    for (; rest != 0; rest &= rest - 1) {
      const std::int64_t found =
          view_.device_score(std::countr_zero(rest), demand_.request, scoring_);
      if (best != 0 && found <= score) continue;
      best = rest & -rest;
      score = found;
    }
    return best;
  }

  const Demand& demand_;
  MinorMask preferred_;
  const View& view_;
  const Scoring& scoring_;
  Scope required_ = Scope::kAny;
};

}  // namespace

Assignment assign_scope(const DeviceTable& table, std::uint32_t row, const Demand& demand,
                        const Offer& offer, const View& view, const Scoring& scoring) {
  const bool must = demand.scope != Scope::kAny;
  if (table.groups(row).empty()) return {must ? Refusal::kNoTopology : Refusal::kNone};
  if (demand.shared && demand.request.count > 1) {
    return {must ? Refusal::kManyShares : Refusal::kNone};
  }
  const Pick pick = Search(demand, offer, view, scoring).machine(table.groups(row));
  if (pick.minors != 0) return {Refusal::kNone, pick.minors};
  return {must ? Refusal::kScopesTaken : Refusal::kGroupsTaken};
}

}  // namespace koord::devices
