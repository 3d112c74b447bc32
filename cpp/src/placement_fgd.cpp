// SPDX-License-Identifier: Apache-2.0
// Fragmentation gradient descent: the node and the GPU on which a pod leaves the least free
// capacity useless to the pods that are typical.
#include <algorithm>
#include <array>

#include "placement_policies.hpp"

namespace koord::placement {
namespace {

using devices::FragmentationMeasure;
using devices::GpuProfile;

class FragmentationGradient final : public RowPolicy<FragmentationGradient> {
 public:
  explicit FragmentationGradient(std::shared_ptr<const FragmentationMeasure> measure)
      : measure_(std::move(measure)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "fgd"; }

  Rating rate(const NodeTable& table, ShapeId id, Row row) override {
    return {descend(table, id, row).score};
  }

  // Nodes in equal state are rated once.
  void rate_all(const NodeTable& table, ShapeId id, std::span<const std::uint8_t> mask,
                std::span<Rating> ratings) override {
    states_.fill({});
    for (Row row = 0; row < mask.size(); ++row) {
      if (mask[row] == 0) continue;
      const MinorMask gpus = candidates(table, table.shape(id), row);
      State& state = states_[hash(table, row, gpus) % states_.size()];
      if (!state.known || state.gpus != gpus || !equal(table, state.row, row)) {
        state = {true, row, gpus, descend(table, id, row).score};
      }
      ratings[row] = {state.score};
    }
  }

  MinorMask choose_gpus(const NodeTable& table, ShapeId id, Row row) override {
    return descend(table, id, row).gpus;
  }

 private:
  struct Step {
    std::int32_t score;
    MinorMask gpus;
  };
  // What the last node whose state has this hash is worth for the shape that is being rated.
  struct State {
    bool known = false;
    Row row = 0;
    MinorMask gpus = 0;
    std::int32_t score = 0;
  };
  // A node as it is, shared by all shapes until it changes.
  struct Before {
    std::uint64_t version = UINT64_MAX;
    double amount = 0;
    GpuProfile profile;
  };

  std::span<const std::uint8_t> accepted(const NodeTable& table, Row row) {
    while (accepted_.size() <= table.model(row)) {
      accepted_.push_back(measure_->accepted(table.model_names()[accepted_.size()]));
    }
    return accepted_[table.model(row)];
  }

  const Before& before(const NodeTable& table, Row row) {
    if (row >= before_.size()) before_.resize(table.rows());
    Before& node = before_[row];
    if (node.version != table.version(row)) {
      node.version = table.version(row);
      node.profile = measure_->profile(table.gpus().free(row, 0));
      node.amount = measure_->amount(table.free(kCpu)[row], node.profile, accepted(table, row));
    }
    return node;
  }

  static bool shares(const Shape& shape) {
    return shape.gpus.count == 1 && shape.gpu_each() < kGpuMilli;
  }

  // A share may go to any of these GPUs; other pods take them all.
  static MinorMask candidates(const NodeTable& table, const Shape& shape, Row row) {
    if (shape.gpus.count == 0) return 0;
    if (shares(shape)) return table.gpus().fitting(row, shape.gpus.each);
    return table.gpus().choose(row, shape.gpus, devices::Choice::kFirst);
  }

  // With the GPUs that the pod can have, all that a score depends on.
  static bool equal(const NodeTable& table, Row a, Row b) {
    return table.free(kCpu)[a] == table.free(kCpu)[b] && table.model(a) == table.model(b) &&
           std::ranges::equal(table.gpus().free(a, 0), table.gpus().free(b, 0));
  }

  static std::uint64_t hash(const NodeTable& table, Row row, MinorMask gpus) {
    std::uint64_t sum = static_cast<std::uint64_t>(table.free(kCpu)[row]) + gpus;
    std::uint64_t factor = 0x9e3779b97f4a7c15U;
    for (const std::int64_t milli : table.gpus().free(row, 0)) {
      sum += static_cast<std::uint64_t>(milli) * factor;
      factor += 0x9e3779b97f4a7c15U << 1U;
    }
    return (sum * 0x9e3779b97f4a7c15U) >> 40U;
  }

  Step descend(const NodeTable& table, ShapeId id, Row row) {
    const Shape& shape = table.shape(id);
    const Before& node = before(table, row);
    const MinorMask gpus = candidates(table, shape, row);
    if (shares(shape)) return share(table, shape, row, node, gpus);
    const auto free = table.gpus().free(row, 0);
    after_ = node.profile;
    for (MinorMask rest = gpus; rest != 0; rest &= rest - 1) {
      const std::int64_t milli = free[static_cast<std::size_t>(std::countr_zero(rest))];
      measure_->move(after_, milli, milli - shape.gpu_each(), after_);
    }
    return {score(table, shape, row, node), gpus};
  }

  // Every GPU that holds the share is tried; the first with the best score wins.
  Step share(const NodeTable& table, const Shape& shape, Row row, const Before& node,
             MinorMask rest) {
    const auto free = table.gpus().free(row, 0);
    Step best{-1, 0};
    while (rest != 0) {
      const auto minor = static_cast<std::size_t>(std::countr_zero(rest));
      const std::int64_t milli = free[minor];
      measure_->move(node.profile, milli, milli - shape.gpu_each(), after_);
      const std::int32_t found = score(table, shape, row, node);
      if (found > best.score) best = {found, MinorMask{1} << minor};
      // GPUs with as much free would score the same and come later.
      for (MinorMask same = rest; same != 0; same &= same - 1) {
        const auto other = static_cast<std::size_t>(std::countr_zero(same));
        if (free[other] == milli) rest &= ~(MinorMask{1} << other);
      }
    }
    return best;
  }

  std::int32_t score(const NodeTable& table, const Shape& shape, Row row, const Before& node) {
    const std::int64_t cpu = table.free(kCpu)[row] - shape.request[kCpu];
    return devices::gradient_score(node.amount,
                                   measure_->amount(cpu, after_, accepted(table, row)));
  }

  std::shared_ptr<const FragmentationMeasure> measure_;
  std::vector<std::vector<std::uint8_t>> accepted_;  // by model
  std::vector<Before> before_;                       // by row
  std::array<State, 1024> states_;                   // by hash, of one shape
  GpuProfile after_;                                 // scratch, so that rating allocates nothing
};

}  // namespace

std::unique_ptr<Policy> make_fgd(const NodeTable&, const PolicyOptions& options) {
  if (!options.fragmentation) throw Exception(invalid("typical pods", "none", "some for fgd"));
  return std::make_unique<FragmentationGradient>(options.fragmentation);
}

}  // namespace koord::placement
