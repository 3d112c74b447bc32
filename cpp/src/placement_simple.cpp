// SPDX-License-Identifier: Apache-2.0
// Policies that rate every node alike: first fit by rank, and a fair draw.
#include "placement_policies.hpp"

namespace koord::placement {
namespace {

class Fit final : public RowPolicy<Fit> {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "fit"; }
  Rating rate(const NodeTable&, ShapeId, Row) override { return {}; }
};

class Random final : public RowPolicy<Random> {
 public:
  explicit Random(std::uint64_t seed) : lots_(seed) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "random"; }
  Rating rate(const NodeTable&, ShapeId, Row) override { return {}; }
  MinorMask choose_gpus(const NodeTable& table, ShapeId shape, Row row) override {
    return table.gpus().choose(row, table.shape(shape).gpus, devices::Choice::kRandom, &lots_);
  }
  std::int64_t draw(std::int64_t feasible) override {
    return static_cast<std::int64_t>(lots_.below(static_cast<std::uint64_t>(feasible)));
  }

 private:
  SplitMix64 lots_;
};

}  // namespace

std::unique_ptr<Policy> make_fit(const NodeTable&, const PolicyOptions&) {
  return std::make_unique<Fit>();
}

std::unique_ptr<Policy> make_random(const NodeTable&, const PolicyOptions& options) {
  return std::make_unique<Random>(options.seed);
}

}  // namespace koord::placement
