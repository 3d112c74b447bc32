// SPDX-License-Identifier: Apache-2.0
// Classes of rows: rows of which all columns are equal are one class, and checks and scores that
// read nothing else are asked once a class.
//
//   RowClasses classes(4096);
//   if (classes.update(columns, {.first = 0, .count = 5000}, open, ranks)) {
//     const std::int64_t row = classes.best(rooms, weights);  // -1: none is feasible
//   }
//
// A cluster has few kinds of machines, and what stands on them is many times the same. So a pod
// of a kind never seen costs what there are classes, not rows. Within a class the row of the lowest
// rank goes first.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "koord/error.hpp"
#include "koord/placement_board.hpp"
#include "koord/placement_fit.hpp"

namespace koord::placement {

/// See the head of this file.
class KOORD_API RowClasses {
 public:
  /// At most so many classes. kInvalid for none, and for more than 2^20.
  explicit RowClasses(std::size_t most);

  /// Reads the columns of rows again; `open` and `ranks` are by row, rows that are not open are in
  /// no class. False, with no row in any class any more, where that makes too many classes.
  /// kInvalid for more than 2^31 rows, ranks beyond 0 to 2^31 and columns of another number of
  /// resources than before clear(); kNotFound for a row out of range.
  bool update(const Columns& columns, RowSet rows, std::span<const std::uint8_t> open,
              std::span<const std::int64_t> ranks);

  /// Forgets all rows.
  void clear();

  /// The row that all checks let pass with the highest sum of scores times their weights, the
  /// lowest rank among equals; -1 if there is none. kInvalid for another number of weights than
  /// there are scores; other errors are those of the checks and scores.
  [[nodiscard]] std::int64_t best(const Rooms& rooms, std::span<const std::int64_t> weights);

  /// How many classes have rows.
  [[nodiscard]] std::size_t size() const { return classes_.size() - unused_.size(); }

 private:
  // A rank in the upper half, its row in the lower one: the least goes first.
  using Member = std::uint64_t;
  struct Class {
    std::uint64_t hash = 0;
    std::size_t rows = 0;
    std::int32_t next = -1;  // of the same hash
    // A heap; rows that have left stay in it until they would be first.
    std::vector<Member> members = {};
  };

  bool put(const Columns& columns, std::size_t row, Member member);
  void leave(std::size_t row);
  void read(const Columns& columns, std::size_t row);
  [[nodiscard]] std::int32_t find(std::uint64_t hash) const;
  [[nodiscard]] bool holds(std::size_t number) const;
  std::int32_t add(std::uint64_t hash);
  void drop(std::int32_t number);
  Member first(std::size_t number);
  void rate_part(const Rooms& rooms, std::span<const std::int64_t> weights, std::size_t at,
                 std::size_t count);

  std::size_t most_;
  std::size_t resources_ = 0;
  std::vector<std::int32_t> class_of_;  // by row, -1: none
  std::vector<Class> classes_;
  std::vector<std::int32_t> unused_;
  std::unordered_map<std::uint64_t, std::int32_t> by_hash_;
  std::vector<std::int64_t> columns_;  // of the classes: allocatable, requested, nonzero
  std::vector<std::int64_t> read_;     // what the row has that is looked at
  // Of the classes that are looked at together: below 0 where a check refuses; the sums.
  std::vector<std::int64_t> left_, totals_, answers_;
};

}  // namespace koord::placement
