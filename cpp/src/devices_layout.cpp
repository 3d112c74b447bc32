// SPDX-License-Identifier: Apache-2.0
// How the devices of a machine lie together: by NUMA node and PCIe root, and by link.
#include <algorithm>
#include <map>

#include "koord/devices.hpp"

namespace koord::devices {

PartitionTable::PartitionTable(const std::vector<Partition>& partitions) {
  by_size_.resize(kMaxMinors + 1);
  for (const Partition& partition : partitions) {
    const std::int64_t bandwidth = partition.bandwidth_bps.value_or(0);
    for (const std::int64_t amount : {partition.score, bandwidth}) {
      if (amount >= 0 && amount <= kMaxAmount) continue;
      throw Exception(invalid("partition", std::to_string(amount), "a score and bandwidth >= 0"));
    }
    if (partition.minors == 0) throw Exception(invalid("partition", "no minors", "one or more"));
    by_size_[static_cast<std::size_t>(std::popcount(partition.minors))].push_back(partition);
  }
  for (auto& partitions_of_size : by_size_) {
    std::ranges::stable_sort(partitions_of_size, std::ranges::greater{}, &Partition::score);
  }
}

std::span<const Partition> PartitionTable::of_size(std::int32_t gpus) const {
  if (gpus < 0 || gpus > kMaxMinors) return {};
  return by_size_[static_cast<std::size_t>(gpus)];
}

std::span<const Partition> PartitionTable::best_of_size(std::int32_t gpus) const {
  const auto all = of_size(gpus);
  const auto worse = std::ranges::find_if(
      all, [&](const Partition& partition) { return partition.score != all[0].score; });
  return all.first(static_cast<std::size_t>(worse - all.begin()));
}

void DeviceTable::set_partitions(std::uint32_t row,
                                 std::shared_ptr<const PartitionTable> partitions, bool honour) {
  partitions_[row] = std::move(partitions);
  honours_[row] = honour ? 1 : 0;
}

void DeviceTable::group(std::uint32_t row) {
  std::map<std::int32_t, std::map<std::int32_t, MinorMask>> by_node;
  groups_[row].clear();
  for (MinorMask rest = listed_[row]; rest != 0; rest &= rest - 1) {
    const Place& place = places(row)[static_cast<std::size_t>(std::countr_zero(rest))];
    if (place.numa_node == kNowhere) return;
    by_node[place.numa_node][place.pcie] |= rest & -rest;
  }
  for (const auto& [node, by_pcie] : by_node) {
    NumaGroup numa;
    for (const auto& [pcie, minors] : by_pcie) {
      numa.minors |= minors;
      numa.pcies.push_back(minors);
    }
    groups_[row].push_back(std::move(numa));
  }
}

}  // namespace koord::devices
