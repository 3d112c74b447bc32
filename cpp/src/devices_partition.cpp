// SPDX-License-Identifier: Apache-2.0
// Whole GPUs that a machine links with each other.
#include <algorithm>
#include <utility>

#include "devices_view.hpp"

namespace koord::devices {
namespace {

// What a partition that stays whole is worth: larger ones are rarer.
constexpr std::array<std::pair<std::int32_t, std::int64_t>, 3> kWorth = {
    {{8, 10000}, {4, 100}, {2, 1}}};

bool feasible(const Partition& partition, const Demand& demand, const View& view) {
  const MinorMask free = view.fitting() & ~view.used();
  if ((partition.minors & ~free) != 0) return false;
  return demand.bandwidth_bps == 0 ||
         (partition.bandwidth_bps && *partition.bandwidth_bps >= demand.bandwidth_bps);
}

// The worth of the partitions that are still whole once `taken` is in use.
std::int64_t left_whole(const PartitionTable& table, std::int32_t gpus, MinorMask taken) {
  std::int64_t worth = 0;
  for (const auto& [size, each] : kWorth) {
    if (size < gpus) continue;
    for (const Partition& partition : table.best_of_size(size)) {
      if ((partition.minors & taken) == 0) worth += each * partition.score;
    }
  }
  return worth;
}

Assignment best_of(const PartitionTable& table, const Demand& demand, const Offer& offer,
                   const View& view) {
  const std::int32_t gpus = demand.request.count;
  const auto all = demand.best_partition_only ? table.best_of_size(gpus) : table.of_size(gpus);
  if (all.empty()) return {Refusal::kNoPartitionSize};
  const Partition* best = nullptr;
  std::pair<int, std::int64_t> most{-1, -1};
  for (const Partition& partition : all) {
    if (best != nullptr && partition.score < best->score) break;
    if (!feasible(partition, demand, view)) continue;
    const std::pair worth{std::popcount(partition.minors & offer.preferred),
                          left_whole(table, gpus, view.used() | partition.minors)};
    if (worth > most) {
      most = worth;
      best = &partition;
    }
  }
  if (best == nullptr) return {Refusal::kPartitionsTaken};
  return {Refusal::kNone, best->minors};
}

}  // namespace

Assignment assign_partition(const DeviceTable& table, std::uint32_t row, const Demand& demand,
                            const Offer& offer, const View& view) {
  if (demand.shared) return {};
  const bool must = demand.honour_partition || table.honours_partitions(row);
  const PartitionTable* partitions = table.partitions(row);
  const Assignment found = partitions == nullptr ? Assignment{Refusal::kNoPartitions}
                                                 : best_of(*partitions, demand, offer, view);
  return found.refusal == Refusal::kNone || must ? found : Assignment{};
}

}  // namespace koord::devices
