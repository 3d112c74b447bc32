// SPDX-License-Identifier: Apache-2.0
// Whether rows have room for one more pod, and how full it would leave them: over columns that
// belong to the caller, for the rows asked about.
//
//   const Columns columns{allocatable, requested, nonzero, 5000};
//   RoomCheck({{0, 500}, {3, 1}}).check(columns, rows, passes);
//   RoomScore(Strategy::kLeast, {{.resource = 0, .request = 500, .nonzero = true}}).score(
//       columns, rows, scores);
//
// Kubernetes: NodeResourcesFit and NodeResourcesBalancedAllocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "koord/error.hpp"
#include "koord/placement_board.hpp"

namespace koord::placement {

/// Columns of int64, one after the other: resource r of row i stands at r * stride + i.
struct Columns {
  const std::int64_t* allocatable = nullptr;
  const std::int64_t* requested = nullptr;
  const std::int64_t* nonzero = nullptr;  ///< resources 0 and 1 as scores count them
  std::size_t stride = 0;                 ///< of all three: the number of rows
  std::size_t resources = 0;              ///< of allocatable and requested
};

/// An amount of a resource.
struct Asked {
  std::size_t resource = 0;
  std::int64_t amount = 0;

  bool operator==(const Asked&) const = default;
};

/// Whether one more pod fits. An amount of 0 fits everywhere, also where a row is overdrawn.
class KOORD_API RoomCheck {
 public:
  explicit RoomCheck(std::vector<Asked> asked) : asked_(std::move(asked)) {}

  /// The same of other amounts, for the first of its resources; kInvalid for more than it has.
  [[nodiscard]] RoomCheck asking(std::span<const std::int64_t> amounts) const;

  /// Writes 1 where all amounts fit. kNotFound for a resource or row out of range.
  void check(const Columns& columns, RowSet rows, std::span<std::uint8_t> passes) const;

  /// Writes what a row would have left, below 0 where any amount does not fit, and only the sign
  /// means something; for amounts and columns within 2^61. Errors as above.
  void left(const Columns& columns, RowSet rows, std::span<std::int64_t> left) const;

  [[nodiscard]] std::span<const Asked> asked() const { return asked_; }

  bool operator==(const RoomCheck&) const = default;

 private:
  std::vector<Asked> asked_;
};

/// How a share of what a row has becomes its score.
enum class Strategy : std::uint8_t {
  kLeast,     ///< the more is left, the better
  kMost,      ///< the less is left, the better
  kRatio,     ///< by a broken line over the used percents
  kBalanced,  ///< the nearer the used fractions are to each other, the better
};

/// A resource that counts.
struct Counted {
  std::size_t resource = 0;
  std::int64_t request = 0;  ///< the pod's
  std::int64_t weight = 1;   ///< kBalanced takes no weights
  bool nonzero = false;      ///< count as requested what nonzero says; resources 0 and 1 only

  bool operator==(const Counted&) const = default;
};

/// A corner of kRatio's line: used percents, and the score there.
struct Corner {
  std::int64_t used = 0;
  std::int64_t score = 0;

  bool operator==(const Corner&) const = default;
};

/// Scores of 0..100. Resources that a row has none of do not count, nor do their weights.
class KOORD_API RoomScore {
 public:
  /// Corners in order of `used`; needed for kRatio only. kInvalid without any there.
  RoomScore(Strategy strategy, std::vector<Counted> counted, std::vector<Corner> corners = {});

  /// The same of other requests, for the first of its resources; kInvalid for more than it has.
  [[nodiscard]] RoomScore requesting(std::span<const std::int64_t> requests) const;

  /// Writes a score a row. kNotFound for a resource or row out of range.
  void score(const Columns& columns, RowSet rows, std::span<std::int64_t> scores) const;

  /// Of kBalanced: no row scores more that has and uses amounts between those of `least` (which has
  /// least and uses most) and of `most`. Rows in a row; errors as above.
  void bound_balanced(const Columns& least, const Columns& most, RowSet rows,
                      std::span<std::int64_t> scores) const;

  [[nodiscard]] Strategy strategy() const { return strategy_; }
  [[nodiscard]] std::span<const Counted> counted() const { return counted_; }
  [[nodiscard]] std::span<const Corner> corners() const { return corners_; }

  bool operator==(const RoomScore&) const = default;

 private:
  Strategy strategy_;
  std::vector<Counted> counted_;
  std::vector<Corner> corners_;
};

/// Checks and scores with their numbers on a board, brought up to date together.
class KOORD_API Rooms {
 public:
  Rooms(std::vector<std::pair<unsigned, RoomCheck>> checks,
        std::vector<std::pair<std::size_t, RoomScore>> scores)
      : checks_(std::move(checks)), scores_(std::move(scores)) {}

  /// Puts on the board what all of them say of rows. Errors are those of the checks and scores,
  /// Board::refuse and Board::rate.
  void put(Board& board, const Columns& columns, RowSet rows) const;

  /// With their numbers, as given.
  [[nodiscard]] std::span<const std::pair<unsigned, RoomCheck>> checks() const { return checks_; }
  [[nodiscard]] std::span<const std::pair<std::size_t, RoomScore>> scores() const {
    return scores_;
  }

  /// Whether both ask for the same, so that they say the same of all rows.
  bool operator==(const Rooms&) const = default;

 private:
  std::vector<std::pair<unsigned, RoomCheck>> checks_;
  std::vector<std::pair<std::size_t, RoomScore>> scores_;
};

/// What pods of one kind ask for, but for the amounts: these are put in pod by pod.
class KOORD_API RoomsTemplate {
 public:
  /// By check, and by score, where among the amounts those of its first resources stand. kInvalid
  /// for more places than it has resources.
  RoomsTemplate(Rooms rooms, std::vector<std::vector<std::size_t>> checks,
                std::vector<std::vector<std::size_t>> scores);

  /// The checks and scores of a pod. kInvalid for too few amounts.
  [[nodiscard]] Rooms of(std::span<const std::int64_t> amounts) const;

 private:
  Rooms rooms_;
  std::vector<std::vector<std::size_t>> checks_;
  std::vector<std::vector<std::size_t>> scores_;
  std::size_t amounts_ = 0;
};

}  // namespace koord::placement
