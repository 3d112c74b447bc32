// SPDX-License-Identifier: Apache-2.0
// Policies over the vector (free CPU, free GPU). The scales are constants of the published
// experiment, not maxima of the cluster: the largest node had 128 cores and 8 GPUs.
#include "placement_policies.hpp"

namespace koord::placement {
namespace {

constexpr double kCpuScale = 128000;
constexpr double kGpuScale = 8000;

// What a rating sees of a node and a shape, in double as the scores are defined.
struct View {
  double cpu_free, gpu_free, cpu, gpu;

  View(const NodeTable& table, ShapeId id, Row row)
      : cpu_free(static_cast<double>(table.free(kCpu)[row])),
        gpu_free(static_cast<double>(table.gpus().free_sums()[row])),
        cpu(static_cast<double>(table.shape(id).request[kCpu])),
        gpu(static_cast<double>(table.shape(id).gpu_total())) {}
};

// The smaller the product of what is free and what is asked for, the better: fill emptied nodes.
class DotProduct final : public RowPolicy<DotProduct> {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "dotprod"; }
  Rating rate(const NodeTable& table, ShapeId id, Row row) override {
    const View view(table, id, row);
    const double product = (view.cpu_free / kCpuScale) * (view.cpu / kCpuScale) +
                           (view.gpu_free / kGpuScale) * (view.gpu / kGpuScale);
    return {static_cast<std::int32_t>(100 * (1 - product / 2))};
  }
};

// The less is left after the pod, the better.
class BestFit final : public RowPolicy<BestFit> {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "bestfit"; }
  Rating rate(const NodeTable& table, ShapeId id, Row row) override {
    const View view(table, id, row);
    const double left =
        (view.cpu_free - view.cpu) / kCpuScale * 0.5 + (view.gpu_free - view.gpu) / kGpuScale * 0.5;
    return {static_cast<std::int32_t>((1 - left) * 100)};
  }

  void normalise(std::span<const std::uint8_t> mask, std::span<Rating> ratings) const override {
    spread_scores(mask, ratings);
  }
};

}  // namespace

std::unique_ptr<Policy> make_dotprod(const NodeTable&, const PolicyOptions&) {
  return std::make_unique<DotProduct>();
}

std::unique_ptr<Policy> make_bestfit(const NodeTable&, const PolicyOptions&) {
  return std::make_unique<BestFit>();
}

}  // namespace koord::placement
