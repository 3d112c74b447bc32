// SPDX-License-Identifier: Apache-2.0
// Places pods by one policy: ratings are cached by shape, and a pod looks only at the nodes that
// changed since the last pod of its shape.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "koord/placement.hpp"
#include "koord/placement_policy.hpp"

namespace koord::placement {

/// The best node of one shape, kept as a tournament over ranks: a change replays the matches of one
/// node, the winner stands at the root.
class KOORD_API Tournament {
 public:
  /// Infeasible: loses against every rating.
  static constexpr Rating kOut{INT32_MIN, INT32_MIN};

  /// Starts over with so many ranks, all out.
  void reset(std::size_t ranks);
  /// Sets one rating; matches that it does not change are not replayed.
  void set(std::uint32_t rank, Rating rating);
  /// Sets a rating without replaying; rebuild() must follow.
  void set_lazily(std::uint32_t rank, Rating rating) { ratings_[rank] = rating; }
  void rebuild();

  [[nodiscard]] Rating rating(std::uint32_t rank) const { return ratings_[rank]; }
  /// The lowest of the ranks with the highest rating, or nullopt if all are out.
  [[nodiscard]] std::optional<std::uint32_t> winner() const;

 private:
  [[nodiscard]] std::uint32_t match(std::uint32_t left, std::uint32_t right) const {
    return ratings_[right] > ratings_[left] ? right : left;
  }

  std::size_t leaves_ = 0;              // a power of two
  std::vector<Rating> ratings_;         // by rank, padded with kOut
  std::vector<std::uint32_t> winners_;  // a heap: node i has the children 2i and 2i + 1
};

/// See the head of this file. Uses the table it was made for and may share it with other placers
/// and with changes made directly. Not thread-safe.
class KOORD_API Placer {
 public:
  /// The table must outlive the placer.
  Placer(NodeTable& table, std::unique_ptr<Policy> policy);

  [[nodiscard]] const Policy& policy() const noexcept { return *policy_; }
  [[nodiscard]] Policy& policy() noexcept { return *policy_; }
  [[nodiscard]] const NodeTable& table() const noexcept { return table_; }

  /// Where a pod of the shape would go, or nullopt if it fits nowhere. Changes nothing but caches
  /// and what the policy draws.
  [[nodiscard]] std::optional<Placement> pick(ShapeId shape);
  /// Tells the policy of the arrival, picks, and commits.
  std::optional<Placement> place(ShapeId shape);
  /// The policy's rating of rows for a pod of the shape, kOut where it does not fit. For a caller
  /// that keeps ratings itself and asks again for rows that changed, or when epoch() did.
  void rate(ShapeId shape, std::span<const Row> rows, std::span<Rating> ratings);
  /// The GPUs that a pod of the shape would get on a row, or 0 if it does not fit.
  [[nodiscard]] MinorMask choose_gpus(ShapeId shape, Row row);
  /// Tells the policy of a pod that is placed by other means than place().
  void arrived(ShapeId shape);
  /// Ratings of the shape that were given out under another epoch no longer hold.
  [[nodiscard]] std::uint64_t epoch(ShapeId shape) const;
  /// Places several pods in turn; where one fits nowhere and `all_or_none`, none is placed and the
  /// answer is empty.
  std::vector<std::optional<Placement>> place_batch(std::span<const ShapeId> shapes,
                                                    bool all_or_none = false);

 private:
  struct Cache {
    std::uint64_t seen = 0;
    std::uint64_t layout = 0;
    std::uint64_t epoch = 0;
    bool built = false;
    std::int64_t feasible = 0;
    Tournament tournament;
  };

  void check(ShapeId shape) const;
  Cache& refreshed(ShapeId shape);
  void build(Cache& cache, ShapeId shape);
  void update(Cache& cache, ShapeId shape, Row row);
  [[nodiscard]] std::uint32_t drawn(const Cache& cache, std::int64_t place) const;

  NodeTable& table_;
  std::unique_ptr<Policy> policy_;
  std::vector<std::unique_ptr<Cache>> caches_;  // by shape
};

}  // namespace koord::placement
