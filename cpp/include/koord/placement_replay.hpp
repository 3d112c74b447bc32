// SPDX-License-Identifier: Apache-2.0
// Replays arrivals, one pod at a time, and records what the cluster looked like after each.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "koord/fragmentation.hpp"
#include "koord/placement_placer.hpp"

namespace koord::placement {

/// One entry an arrival, failed ones and CPU-only ones included.
struct ReplayRows {
  static constexpr std::int32_t kNowhere = -1;

  std::vector<std::int64_t> used_milli;     ///< GPU milli held after the arrival
  std::vector<std::int64_t> arrived_milli;  ///< GPU milli asked for so far
  std::vector<double> fragment_milli;       ///< fragmentation amount of the cluster
  std::vector<double> fragment_percent;     ///< of what is free
  std::vector<std::int32_t> node;           ///< row that got the pod, or kNowhere
};

/// A replay can be run in chunks; each continues where the last one ended.
class KOORD_API Replay {
 public:
  /// Table and placer must outlive the replay, and nothing else may change the table meanwhile.
  /// Throws Exception when the placer is not one of this table.
  Replay(NodeTable& table, Placer& placer,
         std::shared_ptr<const devices::FragmentationMeasure> measure);

  /// Places the pods in order and appends one row each. Throws Exception, and places none, when a
  /// shape is unknown or the table has other nodes than at the start.
  void run(std::span<const ShapeId> arrivals);
  /// Hands the rows over and ends the replay.
  [[nodiscard]] ReplayRows finish() noexcept { return std::move(rows_); }

 private:
  [[nodiscard]] devices::FragmentSums node_sums(Row row) const;
  void check(std::span<const ShapeId> arrivals) const;
  void record(std::int32_t node);

  NodeTable& table_;
  Placer& placer_;
  std::shared_ptr<const devices::FragmentationMeasure> measure_;
  std::vector<std::vector<std::uint8_t>> accepted_;  // by model
  std::vector<devices::FragmentSums> nodes_;         // by row
  devices::FragmentSums cluster_{};
  std::int64_t free_milli_ = 0;
  std::int64_t used_milli_ = 0;
  std::int64_t arrived_milli_ = 0;
  ReplayRows rows_;
};

}  // namespace koord::placement
