// SPDX-License-Identifier: Apache-2.0
// What a placement policy is: the worth of one node for one shape, and which GPUs to take there.
//
// A new policy is a class in a source file of its own and one line in placement_policies.cpp. It
// usually derives from RowPolicy and writes rate():
//
//   class Emptiest final : public RowPolicy<Emptiest> {
//    public:
//     std::string_view name() const noexcept override { return "emptiest"; }
//     Rating rate(const NodeTable& table, ShapeId shape, Row row) override { ... }
//   };
#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "koord/fragmentation.hpp"
#include "koord/placement.hpp"

namespace koord::placement {

/// How good a node is for a shape. Higher wins; equal ones fall to the node with the lowest rank.
struct Rating {
  std::int32_t score = 0;       ///< 0..100 for the published policies
  std::int32_t preference = 0;  ///< parts equal scores before the rank does

  auto operator<=>(const Rating&) const = default;
};

/// See the head of this file. One object serves one table; not thread-safe.
class KOORD_API Policy {
 public:
  virtual ~Policy() = default;

  [[nodiscard]] virtual std::string_view name() const noexcept = 0;

  /// The rating of one more pod of the shape on a row that it fits. A rating is cached until the
  /// row changes, so it may depend on the row, the shape and epoch() only.
  virtual Rating rate(const NodeTable& table, ShapeId shape, Row row) = 0;

  /// rate() for all rows whose mask is not 0; the others are left as they are.
  virtual void rate_all(const NodeTable& table, ShapeId shape, std::span<const std::uint8_t> mask,
                        std::span<Rating> ratings) = 0;

  /// The GPUs that a pod of the shape, which fits, gets on the row.
  virtual MinorMask choose_gpus(const NodeTable& table, ShapeId shape, Row row);

  /// Cached ratings of a shape are dropped when this changes, e.g. with a new estimate of what will
  /// arrive. A policy without such state leaves it at 0.
  [[nodiscard]] virtual std::uint64_t epoch(ShapeId) const { return 0; }

  /// Told of each pod before it is placed, whether or not it will fit.
  virtual void arrived(const NodeTable&, ShapeId) {}

  /// The place of the winner among `feasible` nodes in rank order, for a policy that draws lots
  /// instead of rating; negative for all others.
  virtual std::int64_t draw(std::int64_t feasible);

  /// Turns scores of feasible nodes into what a person or another plugin compares, without changing
  /// their order.
  virtual void normalise(std::span<const std::uint8_t> mask, std::span<Rating> ratings) const;
};

/// Gives a policy a rate_all() that calls its own rate() without a virtual call a row.
template <class Derived>
class RowPolicy : public Policy {
 public:
  void rate_all(const NodeTable& table, ShapeId shape, std::span<const std::uint8_t> mask,
                std::span<Rating> ratings) override {
    for (Row row = 0; row < mask.size(); ++row) {
      if (mask[row] != 0)
        ratings[row] = static_cast<Derived*>(this)->Derived::rate(table, shape, row);
    }
  }

 private:
  RowPolicy() = default;
  friend Derived;
};

/// What policies can be told; each takes what it needs.
struct PolicyOptions {
  std::uint64_t seed = 0;  ///< of a policy that draws lots
  std::shared_ptr<const devices::FragmentationMeasure> fragmentation =
      {};                                  ///< for fgd, which needs it
  std::vector<std::int64_t> weights = {};  ///< of resources, for least, most and balanced
};

/// Makes the policy of that name. Throws kNotFound for an unknown name and kInvalid for options
/// that it lacks. The table must outlive the policy.
KOORD_API std::unique_ptr<Policy> make_policy(std::string_view name, const NodeTable& table,
                                              const PolicyOptions& options);

/// The names make_policy() knows, in the order of its table.
KOORD_API std::vector<std::string_view> policy_names();

}  // namespace koord::placement
