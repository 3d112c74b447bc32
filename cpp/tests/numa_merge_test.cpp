// SPDX-License-Identifier: Apache-2.0
// The merge against trying every combination, on generated hints with many ties.
#include <algorithm>
#include <bit>
#include <numeric>
#include <random>
#include <vector>

#include "check.hpp"
#include "koord/numa.hpp"

namespace {

using namespace koord::numa;
using Lists = std::vector<HintList>;

int width(Mask mask) { return std::popcount(mask); }

bool exclusive_passes(const Machine& machine, Mask mask) {
  if (machine.exclusive != Exclusive::kRequired) return true;
  for (std::size_t zone = 0; zone < machine.zones.size(); ++zone) {
    if (((mask >> zone) & 1) == 0) continue;
    if (width(mask) > 1 && machine.statuses[zone] == Status::kSingle) return false;
    if (width(mask) == 1 && machine.statuses[zone] == Status::kShared) return false;
  }
  return true;
}

Hint combine(const Machine& machine, const std::vector<const Hint*>& members) {
  Hint merged{machine.zones.all(), true};
  int widest = 0;
  std::optional<Mask> first;
  for (const Hint* hint : members) {
    merged.preferred = merged.preferred && hint->preferred;
    merged.unsatisfied = merged.unsatisfied || hint->unsatisfied;
    if (!hint->affinity) continue;
    if (!first) first = hint->affinity;
    merged.preferred = merged.preferred && hint->affinity == first;
    merged.affinity = *merged.affinity & *hint->affinity;
    widest = std::max(widest, width(*hint->affinity));
  }
  if (first && widest != width(*merged.affinity)) merged.unsatisfied = true;
  for (const Hint* hint : members) {
    if (hint->affinity == merged.affinity) merged.score += hint->score;
  }
  if (!exclusive_passes(machine, *merged.affinity)) merged.preferred = false;
  return merged;
}

bool replaces(const Hint& merged, const Hint& best) {
  if (merged.preferred != best.preferred) return merged.preferred;
  const int size = width(*merged.affinity);
  if (size != width(*best.affinity)) return size < width(*best.affinity);
  return *merged.affinity < *best.affinity || merged.score > best.score;
}

void try_all(const Machine& machine, const Lists& lists, std::vector<const Hint*>& members,
             Hint& best) {
  if (members.size() == lists.size()) {
    const Hint merged = combine(machine, members);
    if (*merged.affinity != 0 && replaces(merged, best)) best = merged;
    return;
  }
  for (const Hint& hint : lists[members.size()]) {
    members.push_back(&hint);
    try_all(machine, lists, members, best);
    members.pop_back();
  }
}

Hint merge_slowly(const Machine& machine, const Lists& lists) {
  Hint best{machine.zones.all()};
  std::vector<const Hint*> members;
  try_all(machine, lists, members, best);
  return best;
}

Hint merge_quickly(const Machine& machine, const Lists& lists) {
  return merge(machine, std::vector<std::span<const Hint>>(lists.begin(), lists.end())).value();
}

ZoneSet zones_of(std::size_t count) {
  std::vector<int> ids(count);
  std::iota(ids.begin(), ids.end(), 0);
  return ZoneSet::from_ids(ids).value();
}

class Source {
 public:
  explicit Source(std::uint64_t seed) : engine_(seed) {}
  // The standard's engines are the same everywhere, its distributions are not.
  std::uint64_t below(std::uint64_t limit) { return engine_() % limit; }

  Hint hint(std::size_t zones, std::uint64_t preferred_in_8) {
    Hint hint;
    if (below(8) != 0) hint.affinity = below(std::uint64_t{1} << zones);
    if (below(32) == 0) hint.affinity = hint.affinity.value_or(0) | Mask{1} << 60;
    hint.preferred = below(8) < preferred_in_8;
    hint.unsatisfied = below(8) == 0;
    hint.score = static_cast<std::int64_t>(below(5)) - 1;
    return hint;
  }

  Machine machine() {
    const std::size_t zones = 1 + below(5);
    Machine machine{zones_of(zones), static_cast<Exclusive>(below(3)), {}};
    for (std::size_t i = 0; i < zones; ++i) {
      machine.statuses.push_back(static_cast<Status>(below(3)));
    }
    return machine;
  }

  Lists lists(std::size_t zones) {
    Lists lists(below(5));
    const std::uint64_t preferred_in_8 = below(9);
    for (HintList& list : lists) {
      const std::uint64_t longest = lists.size() == 4 ? 6 : 12;
      for (std::uint64_t i = 0, n = below(40) == 0 ? 0 : 1 + below(longest); i < n; ++i) {
        list.push_back(hint(zones, preferred_in_8));
      }
    }
    return lists;
  }

 private:
  std::mt19937_64 engine_;
};

TEST("numa_merge/random hints of up to 5 zones and 4 lists, every combination") {
  Source source(20240611);
  for (int round = 0; round < 20000; ++round) {
    const Machine machine = source.machine();
    const Lists lists = source.lists(machine.zones.size());
    const bool same = merge_quickly(machine, lists) == merge_slowly(machine, lists);
    CHECK(same);
    if (!same) {
      std::cerr << "  in round " << round << "\n";
      return;
    }
  }
}

TEST("numa_merge/all masks of 5 zones in three lists") {
  for (const int preferred_up_to : {0, 1, 3, 5}) {
    HintList hints;
    for (const Mask mask : enumerate_masks(5).value()) {
      const auto score = static_cast<std::int64_t>(mask * 7 % 11);
      hints.push_back({mask, width(mask) <= preferred_up_to, false, score});
    }
    const Machine machine{zones_of(5), Exclusive::kNone, std::vector<Status>(5)};
    const Lists lists{hints, HintList(hints.rbegin(), hints.rend()), hints};
    CHECK(merge_quickly(machine, lists) == merge_slowly(machine, lists));
  }
}

// No hint is preferred and none is narrower than `narrowest`, so that merged masks of several zones
// win too; lists longer than a word of 64, scores that tie, fall below zero or are all the same.
HintList wide_hints(Source& source, std::size_t zones, int narrowest, std::uint64_t scores) {
  HintList hints;
  while (hints.size() < 60 + source.below(80)) {
    Hint hint = source.hint(zones, 0);
    if (hint.affinity && width(*hint.affinity) < narrowest) continue;
    hint.score = static_cast<std::int64_t>(source.below(scores)) - 2;
    hints.push_back(hint);
  }
  return hints;
}

TEST("numa_merge/none preferred, two long lists of wide hints, every combination") {
  Source source(20261127);
  for (int round = 0; round < 300; ++round) {
    const std::size_t zones = 4 + source.below(9);
    const Machine machine{zones_of(zones), Exclusive::kNone, std::vector<Status>(zones)};
    const auto narrowest = static_cast<int>(source.below(zones));
    const std::uint64_t scores = 1 + source.below(2) * 5;
    const Lists lists{wide_hints(source, zones, narrowest, scores),
                      wide_hints(source, zones, narrowest, scores)};
    const bool same = merge_quickly(machine, lists) == merge_slowly(machine, lists);
    CHECK(same);
    if (!same) {
      std::cerr << "  in round " << round << "\n";
      return;
    }
  }
}

TEST("numa_merge/none preferred, 64 zones in three lists, every combination") {
  Source source(64);
  const Machine machine{zones_of(64), Exclusive::kNone, std::vector<Status>(64)};
  for (int round = 0; round < 50; ++round) {
    Lists lists(3);
    for (HintList& list : lists) {
      for (int i = 0; i < 20; ++i) {
        // Few zones missing, so that intersections stay wide.
        list.push_back({~(Mask{1} << source.below(64) | Mask{1} << source.below(64)), false, false,
                        static_cast<std::int64_t>(source.below(4))});
      }
    }
    CHECK(merge_quickly(machine, lists) == merge_slowly(machine, lists));
  }
}

TEST("numa_merge/each of two combinations can beat the other, so the later one stays") {
  const Machine machine{zones_of(2), Exclusive::kNone, std::vector<Status>(2)};
  const Hint low{Mask{1}, true, false, 1};
  const Hint high{Mask{2}, true, false, 5};
  CHECK(merge_quickly(machine, {{low, high}}) == high);
  CHECK(merge_quickly(machine, {{high, low}}) == low);
}

TEST("numa_merge/64 zones and the widest masks") {
  const Machine machine{zones_of(64), Exclusive::kRequired, std::vector<Status>(64)};
  const Mask top = Mask{1} << 63;
  const Lists lists{{{~Mask{0}, true}, {top, true}}, {{top, true}, {~Mask{0}, true}}};
  CHECK(merge_quickly(machine, lists) == (Hint{top, true}));
}

TEST("numa_merge/bad input is refused") {
  const Machine machine{zones_of(2), Exclusive::kNone, std::vector<Status>(1)};
  CHECK(!merge(machine, {}).ok());
  const Machine right{zones_of(2), Exclusive::kNone, std::vector<Status>(2)};
  const HintList huge{{Mask{1}, true, false, std::int64_t{1} << 41}};
  const std::vector<std::span<const Hint>> lists{huge};
  CHECK_EQ(merge(right, lists).error().field, std::string("hint score"));
}

}  // namespace
