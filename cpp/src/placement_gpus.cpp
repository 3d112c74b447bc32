// SPDX-License-Identifier: Apache-2.0
// Policies that see nothing but GPUs: packing fills what is in use before it opens a node,
// clustering keeps pods of one kind together. A CPU-only pod is worth the same everywhere.
#include <algorithm>
#include <array>

#include "placement_policies.hpp"

namespace koord::placement {
namespace {

constexpr std::size_t kBlock = 256;  // rows at a time

class Packing final : public RowPolicy<Packing> {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "packing"; }

  Rating rate(const NodeTable& table, ShapeId id, Row row) override {
    const devices::Request& request = table.shape(id).gpus;
    if (request.count == 0) return {0};
    if (unused(table, row)) return {opening(table, row)};
    return {filling(table, row, table.gpus().choose(row, request, devices::Choice::kBest))};
  }

  // A share is looked for on all nodes at once.
  void rate_all(const NodeTable& table, ShapeId id, std::span<const std::uint8_t> mask,
                std::span<Rating> ratings) override {
    const devices::Request& request = table.shape(id).gpus;
    if (!devices::DeviceTable::is_simple(request)) {
      RowPolicy::rate_all(table, id, mask, ratings);
      return;
    }
    std::array<MinorMask, kBlock> chosen;
    for (std::size_t first = 0; first < mask.size(); first += kBlock) {
      const auto part = mask.subspan(first, std::min(kBlock, mask.size() - first));
      table.gpus().choose_best(request, static_cast<Row>(first), part, chosen);
      for (std::size_t i = 0; i < part.size(); ++i) {
        const auto row = static_cast<Row>(first + i);
        if (part[i] == 0) continue;
        ratings[row] = {unused(table, row) ? opening(table, row) : filling(table, row, chosen[i])};
      }
    }
  }

 private:
  static bool unused(const NodeTable& table, Row row) {
    return table.gpus().idle(row) == table.gpus().present(row);
  }

  static std::int32_t opening(const NodeTable& table, Row row) {
    const auto count = static_cast<std::int32_t>(std::popcount(table.gpus().present(row)));
    return std::max(33 - count, count);
  }

  static std::int32_t filling(const NodeTable& table, Row row, MinorMask taken) {
    const devices::DeviceTable& gpus = table.gpus();
    const auto opened = static_cast<std::int32_t>(std::popcount(taken & gpus.idle(row)));
    if (opened > 0) return std::max(50 - opened, 33);
    std::int64_t free_percent = 0;
    for (MinorMask rest = taken; rest != 0; rest &= rest - 1) {
      const auto minor = static_cast<std::size_t>(std::countr_zero(rest));
      free_percent += gpus.free(row, 0)[minor] * 100 / kGpuMilli;
    }
    return static_cast<std::int32_t>(std::max<std::int64_t>(100 - free_percent / 10, 50));
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
