// SPDX-License-Identifier: Apache-2.0
// What the pods to come will probably look like, judged by those that came: the estimate behind the
// koord policy. docs/policy-koord.md says why these three figures.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "koord/placement.hpp"

namespace koord::placement {

/// Counts arrivals by shape and now and then turns the counts into an estimate. Not thread-safe.
class ArrivalMix {
 public:
  /// Counts one pod and renews the estimate if it is due. What is due depends on how many pods
  /// came, never on time, so equal arrivals give equal estimates.
  void arrived(const NodeTable& table, ShapeId shape);

  /// Changes with every new estimate.
  [[nodiscard]] std::uint64_t epoch() const noexcept { return epoch_; }

  /// Milli of a GPU with `free` milli that stay unused when it is filled with common sizes as well
  /// as that can be done; a size is common by two measures, and this is their mean.
  [[nodiscard]] std::int64_t leftover(std::int64_t free) const {
    return leftover_[static_cast<std::size_t>(std::min(free, kGpuMilli))];
  }

  /// GPU milli that `free` of a resource carries at the proportion in which GPU pods ask for both;
  /// infinite if they do not ask for it.
  [[nodiscard]] double carried(std::size_t resource, std::int64_t free) const {
    if (resource >= gpu_per_unit_.size() || gpu_per_unit_[resource] == 0) {
      return std::numeric_limits<double>::infinity();
    }
    return static_cast<double>(std::max<std::int64_t>(free, 0)) * gpu_per_unit_[resource];
  }

  /// Demand for a model by pods that name it, over the model's share of what is free: at 1 they
  /// alone use it up just as the cluster fills.
  [[nodiscard]] double scarcity(std::uint32_t model) const {
    return model < scarcity_.size() ? scarcity_[model] : 0;
  }

 private:
  void forget_half();
  void estimate(const NodeTable& table);
  void estimate_leftovers(const NodeTable& table);
  void estimate_proportions(const NodeTable& table);
  void estimate_scarcity(const NodeTable& table);
  void add_pressure(const std::vector<std::string>& accepted,
                    const std::vector<std::string>& models, double share,
                    const std::vector<double>& free, double all_free);

  std::vector<std::int64_t> counts_;  // by shape
  std::int64_t total_ = 0;            // sum of counts_
  std::int64_t until_due_ = 0;
  std::uint64_t epoch_ = 0;
  std::array<std::int64_t, kGpuMilli + 1> leftover_{};
  std::vector<double> gpu_per_unit_;  // by resource, 0 where GPU pods ask for none
  double gpu_milli_ = 0;              // asked for by all counted pods
  std::vector<double> scarcity_;      // by model
};

}  // namespace koord::placement
