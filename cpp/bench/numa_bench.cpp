// SPDX-License-Identifier: Apache-2.0
// Merging all masks of a machine for several resources: preferred throughout as Restricted has it,
// preferred at the smallest size only, and not preferred at all, which leaves the most to look at.
#include <bit>
#include <numeric>
#include <string>
#include <vector>

#include "bench.hpp"
#include "koord/numa.hpp"

namespace {

using namespace koord::numa;

ZoneSet zones_of(std::size_t count) {
  std::vector<int> ids(count);
  std::iota(ids.begin(), ids.end(), 0);
  return ZoneSet::from_ids(ids).value();
}

HintList all_masks(std::size_t zones, int preferred_up_to) {
  HintList hints;
  std::int64_t score = 0;
  for (const Mask mask : enumerate_masks(zones).value()) {
    score = (score + 37) % 101;
    hints.push_back({mask, std::popcount(mask) <= preferred_up_to, false, score});
  }
  return hints;
}

void add_merge(std::size_t zones, std::size_t resources) {
  const struct {
    const char* name;
    int preferred_up_to;
  } cases[] = {{"restricted", 64}, {"smallest preferred", 1}, {"none preferred", 0}};
  for (const auto& [name, preferred_up_to] : cases) {
    const Machine machine{zones_of(zones), Exclusive::kNone, std::vector<Status>(zones)};
    const std::vector<HintList> lists(resources, all_masks(zones, preferred_up_to));
    const std::string title = "numa/merge " + std::to_string(zones) + " zones x " +
                              std::to_string(resources) + " resources, " + name;
    static_cast<void>(koord::bench::Register(title, [machine, lists] {
      const std::vector<std::span<const Hint>> spans(lists.begin(), lists.end());
      koord::bench::keep(merge(machine, spans).value());
    }));
  }
}

void add_hints(std::size_t zones) {
  HintQuery query;
  query.zones = zones;
  const Mask all = zones_of(zones).all();
  query.total = {{Kind::kCpu, all, std::vector<std::int64_t>(zones, 32000)},
                 {Kind::kNative, all, std::vector<std::int64_t>(zones, std::int64_t{1} << 36)}};
  query.available = query.total;
  for (std::size_t zone = 0; zone < zones; ++zone) {
    query.available[0].amount[zone] -= static_cast<std::int64_t>(zone) * 3000;
  }
  query.demands = {{0, 16000, 16000}, {1, std::int64_t{1} << 35, std::int64_t{1} << 35}};
  query.scorer = Scorer{Strategy::kLeastAllocated, {1, 1}};
  query.pools = {
      {query.available, CpuSupply{16, std::vector<std::int64_t>(zones, 32), true, true, 2, {}}}};
  static_cast<void>(
      koord::bench::Register("numa/hints " + std::to_string(zones) + " zones, bound cpus",
                             [query] { koord::bench::keep(generate_hints(query).value()); }));
}

const bool kRegistered = [] {
  add_merge(2, 2);
  add_merge(2, 3);
  add_merge(4, 2);
  add_merge(4, 3);
  add_merge(8, 2);
  add_merge(8, 3);
  add_hints(2);
  add_hints(4);
  add_hints(8);
  return true;
}();

}  // namespace
