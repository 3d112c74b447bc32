// SPDX-License-Identifier: Apache-2.0
// The stock scheduler's scores over requested and allocatable amounts: LeastAllocated,
// MostAllocated and BalancedAllocation.
#include <cmath>

#include "placement_policies.hpp"

namespace koord::placement {
namespace {

// amount / capacity, truncated, for 0 <= amount <= 100 * capacity. Integer division costs several
// times what a division in double does. Below 2^46 both operands are exact in double, and a
// quotient that is not a whole number is at least 2^-46 from one, which no rounding up to 100
// bridges.
std::int64_t divided(std::int64_t amount, std::int64_t capacity) {
  if (capacity >= std::int64_t{1} << 46) return amount / capacity;
  return static_cast<std::int64_t>(static_cast<double>(amount) / static_cast<double>(capacity));
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

// The resources that count for one shape, as plain pointers: the loops over rows read columns.
struct Counted {
  const std::int64_t* capacity;
  const std::int64_t* column;
  std::int64_t request;
  std::int64_t weight;
};

// A policy over all resources with a weight; Derived::rate_row() reads one row of them.
template <class Derived>
class Weighted : public Policy {
 public:
  Rating rate(const NodeTable& table, ShapeId shape, Row row) override {
    count(table, shape);
    return Derived::rate_row(counted_, row);
  }

  void rate_all(const NodeTable& table, ShapeId shape, std::span<const std::uint8_t> mask,
                std::span<Rating> ratings) override {
    count(table, shape);
    for (Row row = 0; row < mask.size(); ++row) {
      if (mask[row] != 0) ratings[row] = Derived::rate_row(counted_, row);
    }
  }

 private:
  friend Derived;
  explicit Weighted(std::vector<std::int64_t> weights) : weights_(std::move(weights)) {}

  void count(const NodeTable& table, ShapeId id) {
    counted_.clear();
    for (std::size_t r = 0; r < weights_.size(); ++r) {
      if (weights_[r] == 0) continue;
      const auto [column, request] = Derived::counted(table, table.shape(id), r);
      counted_.push_back({table.capacity(r).data(), column, request, weights_[r]});
    }
  }

  std::vector<std::int64_t> weights_;
  std::vector<Counted> counted_;  // scratch, so that rating allocates nothing
};

using ColumnOf = std::pair<const std::int64_t*, std::int64_t>;

// Least: what would be left in percent. Most: what would be used. Weighted, truncated twice.
template <bool kMost>
class Allocated final : public Weighted<Allocated<kMost>> {
 public:
  explicit Allocated(std::vector<std::int64_t> weights) : Weighted<Allocated>(std::move(weights)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return kMost ? "most" : "least"; }

  static ColumnOf counted(const NodeTable& table, const Shape& shape, std::size_t r) {
    return {table.scored(r).data(), shape.scored[r]};
  }

  static Rating rate_row(std::span<const Counted> resources, Row row) {
    std::int64_t sum = 0;
    std::int64_t weights = 0;
    for (const Counted& resource : resources) {
      const std::int64_t capacity = resource.capacity[row];
      if (capacity == 0) continue;
      const std::int64_t used = resource.column[row] + resource.request;
      const std::int64_t part =
          kMost ? std::min(used, capacity) : std::max<std::int64_t>(0, capacity - used);
      sum += resource.weight * divided(part * 100, capacity);
      weights += resource.weight;
    }
    return {weights == 0 ? 0 : static_cast<std::int32_t>(divided(sum, weights))};
  }
};

// 100 minus the standard deviation of the used fractions, in percent. Weights count as present or
// not.
class Balanced final : public Weighted<Balanced> {
 public:
  explicit Balanced(std::vector<std::int64_t> weights) : Weighted(std::move(weights)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "balanced"; }

  static ColumnOf counted(const NodeTable& table, const Shape& shape, std::size_t r) {
    return {table.free(r).data(), shape.request[r]};
  }

  static Rating rate_row(std::span<const Counted> resources, Row row) {
    double first = 0;
    double second = 0;
    double sum = 0;
    int count = 0;
    for (const Counted& resource : resources) {
      if (resource.capacity[row] == 0) continue;
      first = second;
      second = fraction(resource, row);
      sum += second;
      ++count;
    }
    double deviation = 0;
    if (count == 2) {
      deviation = std::abs(first - second) / 2;
    } else if (count > 2) {
      deviation = std::sqrt(squares(resources, row, sum / count) / count);
    }
    return {static_cast<std::int32_t>((1 - deviation) * 100)};
  }

 private:
  static double fraction(const Counted& resource, Row row) {
    const std::int64_t capacity = resource.capacity[row];
    const std::int64_t used = capacity - resource.column[row] + resource.request;
    return std::min(1.0, static_cast<double>(used) / static_cast<double>(capacity));
  }

  static double squares(std::span<const Counted> resources, Row row, double mean) {
    double sum = 0;
    for (const Counted& resource : resources) {
      if (resource.capacity[row] == 0) continue;
      const double off = fraction(resource, row) - mean;
      sum += off * off;
    }
    return sum;
  }
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
