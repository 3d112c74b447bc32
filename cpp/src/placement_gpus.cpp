// SPDX-License-Identifier: Apache-2.0
// Policies that see nothing but GPUs: packing fills what is in use before it opens a node,
// clustering keeps pods of one kind together. A CPU-only pod is worth the same everywhere.
#include <algorithm>

#include "placement_policies.hpp"

namespace koord::placement {
namespace {

class Packing final : public RowPolicy<Packing> {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "packing"; }

  Rating rate(const NodeTable& table, ShapeId id, Row row) override {
    const devices::Request& request = table.shape(id).gpus;
    if (request.count == 0) return {0};
    const devices::DeviceTable& gpus = table.gpus();
    const MinorMask idle = gpus.idle(row);
    const auto count = static_cast<std::int32_t>(std::popcount(gpus.present(row)));
    if (idle == gpus.present(row)) return {std::max(33 - count, count)};
    const MinorMask taken = gpus.choose(row, request, devices::Choice::kBest);
    const auto opened = static_cast<std::int32_t>(std::popcount(taken & idle));
    if (opened > 0) return {std::max(50 - opened, 33)};
    std::int64_t free_percent = 0;
    for (MinorMask rest = taken; rest != 0; rest &= rest - 1) {
      const auto minor = static_cast<std::size_t>(std::countr_zero(rest));
      free_percent += gpus.free(row, 0)[minor] * 100 / kGpuMilli;
    }
    return {static_cast<std::int32_t>(std::max<std::int64_t>(100 - free_percent / 10, 50))};
  }
};

class Clustering final : public RowPolicy<Clustering> {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "clustering"; }

  Rating rate(const NodeTable& table, ShapeId id, Row row) override {
    if (table.shape(id).gpus.count == 0) return {0};
    // The published experiment's constant of eight GPUs, so smaller nodes come first in a group.
    constexpr std::int64_t kMostGpuMilli = 8 * kGpuMilli;
    const std::int64_t used = kMostGpuMilli - table.gpus().free_sums()[row];
    const std::int64_t kin = table.gpu_pods(row, table.kind(id));
    const std::int64_t all = table.gpu_pods(row);
    std::int64_t group = 0;
    if (all == 0) group = 25;
    if (kin > 0) group = kin == all ? 75 : 50;
    return {static_cast<std::int32_t>(25 * used / kMostGpuMilli + group)};
  }
};

}  // namespace

std::unique_ptr<Policy> make_packing(const NodeTable&, const PolicyOptions&) {
  return std::make_unique<Packing>();
}

std::unique_ptr<Policy> make_clustering(const NodeTable&, const PolicyOptions&) {
  return std::make_unique<Clustering>();
}

}  // namespace koord::placement
