// SPDX-License-Identifier: Apache-2.0
// The stock scheduler's scores over requested and allocatable amounts: LeastAllocated, MostAllocated
// and BalancedAllocation.
#include <cmath>

#include "placement_policies.hpp"

namespace koord::placement {
namespace {

// amount / capacity for amount >= 0 and capacity > 0. Integer division costs several times what a
// division in double does; the guess is at most one off, and the remainder says which way.
std::int64_t divided(std::int64_t amount, std::int64_t capacity) {
  auto guess = static_cast<std::int64_t>(static_cast<double>(amount) / static_cast<double>(capacity));
  guess -= static_cast<std::int64_t>(guess * capacity > amount);
  guess += static_cast<std::int64_t>((guess + 1) * capacity <= amount);
  return guess;
}

std::vector<std::int64_t> weights_for(const NodeTable& table, const PolicyOptions& options) {
  std::vector<std::int64_t> weights = options.weights;
  if (weights.empty()) weights.assign(table.resources().size(), 1);
  if (weights.size() != table.resources().size()) {
    throw Exception(invalid("weights", std::to_string(weights.size()), "one a resource"));
  }
  for (const std::int64_t weight : weights) {
    if (weight >= 0 && weight <= 1'000'000) continue;
    throw Exception(invalid("weight", std::to_string(weight), "0 to 1000000"));
  }
  return weights;
}

// Least: what would be left in percent. Most: what would be used. Weighted, truncated twice.
template <bool kMost>
class Allocated final : public RowPolicy<Allocated<kMost>> {
 public:
  explicit Allocated(std::vector<std::int64_t> weights) : weights_(std::move(weights)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return kMost ? "most" : "least"; }

  Rating rate(const NodeTable& table, ShapeId id, Row row) override {
    const Shape& shape = table.shape(id);
    std::int64_t sum = 0;
    std::int64_t weights = 0;
    for (std::size_t r = 0; r < weights_.size(); ++r) {
      const std::int64_t capacity = table.capacity(r)[row];
      if (capacity == 0 || weights_[r] == 0) continue;
      const std::int64_t used = table.scored(r)[row] + shape.scored[r];
      const std::int64_t counted = kMost ? std::min(used, capacity) : std::max<std::int64_t>(0, capacity - used);
      sum += weights_[r] * divided(counted * 100, capacity);
      weights += weights_[r];
    }
    return {weights == 0 ? 0 : static_cast<std::int32_t>(divided(sum, weights))};
  }

 private:
  std::vector<std::int64_t> weights_;
};

// 100 minus the standard deviation of the used fractions, in percent.
class Balanced final : public RowPolicy<Balanced> {
 public:
  explicit Balanced(std::vector<std::int64_t> weights) : weights_(std::move(weights)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "balanced"; }

  Rating rate(const NodeTable& table, ShapeId id, Row row) override {
    const Shape& shape = table.shape(id);
    double first = 0;
    double second = 0;
    double sum = 0;
    double count = 0;
    for_each_fraction(table, shape, row, [&](double fraction) {
      first = second;
      second = fraction;
      sum += fraction;
      count += 1;
    });
    double deviation = 0;
    if (count == 2) {
      deviation = std::abs(first - second) / 2;
    } else if (count > 2) {
      const double mean = sum / count;
      double squares = 0;
      for_each_fraction(table, shape, row,
                        [&](double fraction) { squares += (fraction - mean) * (fraction - mean); });
      deviation = std::sqrt(squares / count);
    }
    return {static_cast<std::int32_t>((1 - deviation) * 100)};
  }

 private:
  template <class Body>
  void for_each_fraction(const NodeTable& table, const Shape& shape, Row row, Body body) const {
    for (std::size_t r = 0; r < weights_.size(); ++r) {
      const std::int64_t capacity = table.capacity(r)[row];
      if (capacity == 0 || weights_[r] == 0) continue;
      const std::int64_t used = capacity - table.free(r)[row] + shape.request[r];
      body(std::min(1.0, static_cast<double>(used) / static_cast<double>(capacity)));
    }
  }

  std::vector<std::int64_t> weights_;  // 0 leaves a resource out, all others count alike
};

}  // namespace

std::unique_ptr<Policy> make_least(const NodeTable& table, const PolicyOptions& options) {
  return std::make_unique<Allocated<false>>(weights_for(table, options));
}

std::unique_ptr<Policy> make_most(const NodeTable& table, const PolicyOptions& options) {
  return std::make_unique<Allocated<true>>(weights_for(table, options));
}

std::unique_ptr<Policy> make_balanced(const NodeTable& table, const PolicyOptions& options) {
  return std::make_unique<Balanced>(weights_for(table, options));
}

}  // namespace koord::placement
