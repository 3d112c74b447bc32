// SPDX-License-Identifier: Apache-2.0
// Koordinator's default device allocator: who qualifies, in which order, and how much a row is
// worth.
#include <algorithm>

#include "divide.hpp"
#include "koord/devices.hpp"

namespace koord::devices {
namespace {

struct Ranked {
  std::int64_t score;
  int minor;
};

bool better(const Ranked& a, const Ranked& b) {
  return a.score != b.score ? a.score > b.score : a.minor < b.minor;
}

}  // namespace

std::int64_t usage_score(Strategy strategy, std::int64_t total, std::int64_t used) {
  if (strategy == Strategy::kMostAllocated) return divide(std::min(used, total) * 100, total);
  return used > total ? 0 : divide((total - used) * 100, total);
}

GpuMemory complete_memory(GpuMemory asked, std::int64_t card_bytes) {
  if (card_bytes <= 0 || card_bytes > kMaxAmount) {
    throw Exception(invalid("card memory", std::to_string(card_bytes), "1 to 2^50 bytes"));
  }
  if (asked.bytes < 0 || asked.bytes > kMaxAmount || asked.percent < 0 || asked.percent > 100) {
    throw Exception(invalid(
        "gpu memory",
        std::to_string(asked.bytes) + " bytes, " + std::to_string(asked.percent) + " percent",
        "0 to 2^50 bytes or 0 to 100 percent"));
  }
  if (asked.bytes == 0) return {asked.percent * card_bytes / 100, asked.percent};
  // In double and in this order, as Koordinator writes it into the pod's annotation.
  const double share = static_cast<double>(asked.bytes) / static_cast<double>(card_bytes);
  return {asked.bytes, static_cast<std::int64_t>(share * 100)};
}

std::int64_t DeviceTable::device_score(std::size_t slot, const Request& request,
                                       const Scoring& scoring) const {
  if (scoring.strategy == Strategy::kNone) return 0;
  std::int64_t sum = 0;
  std::int64_t weights = 0;
  for (std::size_t r = 0; r < scoring.weights.size(); ++r) {
    const std::int64_t total = total_[r][slot];
    if (total == 0 || scoring.weights[r] == 0) continue;
    sum += scoring.weights[r] *
           usage_score(scoring.strategy, total, total - free_[r][slot] + request.each[r]);
    weights += scoring.weights[r];
  }
  return weights == 0 ? 0 : sum / weights;
}

std::int64_t DeviceTable::score(std::uint32_t row, const Request& request,
                                const Scoring& scoring) const {
  if (scoring.strategy == Strategy::kNone) return 0;
  std::int64_t sum = 0;
  std::int64_t weights = 0;
  for (std::size_t r = 0; r < scoring.weights.size(); ++r) {
    const std::int64_t totals = total_sums_[r][row];
    if (totals == 0 || scoring.weights[r] == 0) continue;
    const std::int64_t used = totals - free_sums_[r][row] + request.each[r];
    sum += scoring.weights[r] * usage_score(scoring.strategy, totals, used);
    weights += scoring.weights[r];
  }
  return weights == 0 ? 0 : divide(sum, weights);
}

MinorMask DeviceTable::candidates(std::uint32_t row, const Request& request,
                                  const Constraints& constraints) const {
  MinorMask kept = fitting(row, request.each);
  if (constraints.required) kept &= *constraints.required;
  for (MinorMask rest = kept; rest != 0; rest &= rest - 1) {
    const int minor = std::countr_zero(rest);
    const Place& place = places_[nodes_[row].offset + static_cast<std::size_t>(minor)];
    const bool near = !constraints.numa_nodes || place.numa_node == -1 ||
                      (place.numa_node >= 0 && place.numa_node < 64 &&
                       (*constraints.numa_nodes >> place.numa_node & 1) != 0);
    const bool labelled = std::ranges::all_of(constraints.labels, [&](const std::string& label) {
      return std::ranges::find(place.labels, label) != place.labels.end();
    });
    if (!near || !labelled) kept &= ~(MinorMask{1} << minor);
  }
  return kept;
}

MinorMask DeviceTable::allocate(std::uint32_t row, const Request& request,
                                const Constraints& constraints, const Scoring& scoring) const {
  const std::size_t offset = nodes_[row].offset;
  std::vector<Ranked> ranked;
  for (MinorMask rest = candidates(row, request, constraints); rest != 0; rest &= rest - 1) {
    const int minor = std::countr_zero(rest);
    const std::size_t slot = offset + static_cast<std::size_t>(minor);
    ranked.push_back({device_score(slot, request, scoring), minor});
  }
  if (static_cast<std::int64_t>(ranked.size()) < request.count) return 0;
  // Sort key before score: 0 for preferred minors, then the turn of a device on its preferred PCIe
  // root, then everything else.
  std::ranges::sort(ranked, better);
  std::vector<std::int32_t> turns(constraints.preferred_pcies.size(), 0);
  std::vector<std::pair<std::int32_t, Ranked>> ordered;
  for (const Ranked& device : ranked) {
    std::int32_t turn = std::numeric_limits<std::int32_t>::max();
    const auto at = std::ranges::find(
        constraints.preferred_pcies, places_[offset + static_cast<std::size_t>(device.minor)].pcie);
    if (at != constraints.preferred_pcies.end()) {
      turn = ++turns[static_cast<std::size_t>(at - constraints.preferred_pcies.begin())];
    }
    if ((constraints.preferred >> device.minor & 1) != 0) turn = 0;
    ordered.emplace_back(turn, device);
  }
  std::ranges::stable_sort(ordered, {}, &std::pair<std::int32_t, Ranked>::first);
  const std::size_t wanted =
      std::max(static_cast<std::size_t>(request.count), constraints.preferred_pcies.size());
  MinorMask chosen = 0;
  for (std::size_t i = 0; i < std::min(wanted, ordered.size()); ++i) {
    chosen |= MinorMask{1} << ordered[i].second.minor;
  }
  return chosen;
}

}  // namespace koord::devices
