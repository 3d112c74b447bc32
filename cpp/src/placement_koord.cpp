// SPDX-License-Identifier: Apache-2.0
// Puts a pod where it costs the least GPU capacity: capacity left in pieces too small, stranded
// without CPU or memory, or of a model that other pods will miss. See docs/policy-koord.md.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "placement_mix.hpp"
#include "placement_policies.hpp"

namespace koord::placement {
namespace {

class LeastCost final : public RowPolicy<LeastCost> {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "koord"; }

  [[nodiscard]] std::uint64_t epoch(ShapeId) const override { return mix_.epoch(); }

  void arrived(const NodeTable& table, ShapeId id) override { mix_.arrived(table, id); }

  /// Minus the cost in GPU milli, rounded down.
  Rating rate(const NodeTable& table, ShapeId id, Row row) override {
    const Shape& shape = table.shape(id);
    const double cost = static_cast<double>(cheapest_gpus(table, shape, row).leftover) +
                        (stranded(table, row, &shape) - stranded(table, row, nullptr)) +
                        static_cast<double>(shape.gpu_total()) * mix_.scarcity(table.model(row));
    constexpr double kMost = std::numeric_limits<std::int32_t>::max();
    return {static_cast<std::int32_t>(std::clamp(std::floor(-cost), -kMost, kMost))};
  }

  MinorMask choose_gpus(const NodeTable& table, ShapeId id, Row row) override {
    return cheapest_gpus(table, table.shape(id), row).minors;
  }

  void normalise(std::span<const std::uint8_t> mask, std::span<Rating> ratings) const override {
    spread_scores(mask, ratings);
  }

 private:
  struct Gpus {
    MinorMask minors = 0;
    std::int64_t leftover = 0;  // what taking them adds
  };

  // The GPUs that add least leftover; among equals the fullest, then the lowest minor.
  [[nodiscard]] Gpus cheapest_gpus(const NodeTable& table, const Shape& shape, Row row) const {
    Gpus chosen;
    if (shape.gpus.count == 0) return chosen;
    const auto free = table.gpus().free(row, 0);
    MinorMask candidates = table.gpus().fitting(row, shape.gpus.each);
    for (std::int32_t i = 0; i < shape.gpus.count; ++i) {
      std::pair least{std::numeric_limits<std::int64_t>::max(), std::int64_t{0}};
      MinorMask best = 0;
      for (MinorMask rest = candidates; rest != 0; rest &= rest - 1) {
        const std::int64_t milli = free[static_cast<std::size_t>(std::countr_zero(rest))];
        const std::int64_t added = mix_.leftover(milli - shape.gpu_each()) - mix_.leftover(milli);
        if (std::pair{added, milli} >= least) continue;
        least = {added, milli};
        best = rest & -rest;
      }
      candidates &= ~best;
      chosen.minors |= best;
      chosen.leftover += least.first;
    }
    return chosen;
  }

  // Free GPU milli of a row beyond what its scarcest other resource carries; as the row is, or as
  // it would be with a pod of the shape.
  [[nodiscard]] double stranded(const NodeTable& table, Row row, const Shape* placed) const {
    const std::int64_t taken = placed != nullptr ? placed->gpu_total() : 0;
    const auto idle = static_cast<double>(table.gpus().free_sums()[row] - taken);
    double carried = idle;
    for (std::size_t r = 0; r < table.resources().size(); ++r) {
      const std::int64_t request = placed != nullptr ? placed->request[r] : 0;
      carried = std::min(carried, mix_.carried(r, table.free(r)[row] - request));
    }
    return idle - carried;
  }

  ArrivalMix mix_;
};

}  // namespace

std::unique_ptr<Policy> make_koord(const NodeTable&, const PolicyOptions&) {
  return std::make_unique<LeastCost>();
}

}  // namespace koord::placement
