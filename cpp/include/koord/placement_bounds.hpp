// SPDX-License-Identifier: Apache-2.0
// Bounds of rows: the best row for a pod without a look at all of them.
//
//   RowBounds bounds;
//   bounds.update(columns, {.first = 0, .count = 5000}, open, ranks);
//   const std::int64_t row = bounds.best(rooms, weights);  // -1: none
//
// Rows are kept in blocks of 32, of each of which the least and the most of every column is known.
// No row of a block scores higher than one would that had the better end of each column: that is
// asked of all blocks first, and rows are looked at only where they could be better than the best
// that was found so far (branch and bound). What comes out is what a look at all rows gives; where
// the rows of a block are much alike it costs what there are blocks.
//
// Where rows lie in the order that they were given in, those that differ little come one after the
// other in many tables, and of equals the one with the lowest rank is found first. Where searches
// have looked at more than a quarter of the rows, rows are ordered by how much of resources 0 and 1
// is taken instead, so that those of a block are alike; and back where that is no better. Rows move
// from block to block only then, once an eighth of them has changed.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "koord/error.hpp"
#include "koord/placement_board.hpp"
#include "koord/placement_fit.hpp"

namespace koord::placement {

/// Raw scores by row that are no checks' or scores' over columns, and what becomes of them.
struct RowRating {
  ScoreRule rule = {};
  std::span<const std::int64_t> raw = {};
};

/// What is known of rows beside their columns: 0 in any of the masks refuses.
struct RowAnswers {
  std::vector<std::span<const std::uint8_t>> masks = {};
  std::vector<RowRating> ratings = {};
};

/// See the head of this file.
class KOORD_API RowBounds {
 public:
  static constexpr std::size_t kBlock = 32;  // rows

  /// Reads the columns of rows again; `open` and `ranks` are by row. Of other numbers of rows,
  /// ranks or resources than before all rows are to be given: kInvalid for fewer, and for more
  /// ranks than rows; kNotFound for a row out of range.
  void update(const Columns& columns, RowSet rows, std::span<const std::uint8_t> open,
              std::span<const std::int64_t> ranks);

  /// The row that all checks let pass with the highest sum of scores times their weights, the
  /// lowest rank among equals; -1 if there is none. Columns, `open` and `ranks` count as update()
  /// has read them; further answers by row count as a board's do, normalised among rows that
  /// nothing refuses. kInvalid for those of other sizes, for another number of weights than there
  /// are scores, for weights below 0 and for raw scores as in Board::rate(); other errors are those
  /// of the checks and scores.
  [[nodiscard]] std::int64_t best(const Rooms& rooms, std::span<const std::int64_t> weights,
                                  const RowAnswers& answers = {});

  /// How many rows the last call of best() has looked at.
  [[nodiscard]] std::size_t looked_at() const { return looked_at_; }

 private:
  // A rating with the bounds that it is normalised by.
  struct Rated {
    RowRating rating;
    std::int64_t least = 0;
    std::int64_t most = 0;
  };
  struct Found {
    std::int64_t row = -1;
    std::int64_t total = 0;
    std::int64_t rank = 0;
  };

  void resize(const Columns& columns, std::size_t rows);
  void copy_row(std::size_t row, const Columns& columns, std::span<const std::uint8_t> open,
                std::span<const std::int64_t> ranks);
  void order_rows(const Columns& columns, std::span<const std::uint8_t> open,
                  std::span<const std::int64_t> ranks);
  void order_by_use(std::span<const std::uint8_t> open);
  void read_block(std::size_t block);
  void limit_blocks(const Rooms& rooms, std::span<const std::int64_t> weights);
  void limit_score(const RoomScore& score, std::size_t at, std::span<std::int64_t> most) const;
  [[nodiscard]] Columns least() const;
  [[nodiscard]] Columns most() const;
  [[nodiscard]] Columns free() const;
  [[nodiscard]] Columns kept() const;
  void allow(const Rooms& rooms, const RowAnswers& answers);
  void take_ratings(const RowAnswers& answers);
  void limit_allowed();
  void limit_rating(const RowRating& rating);
  [[nodiscard]] std::size_t first_block() const;
  [[nodiscard]] bool may_be_better(std::size_t block, const Found& found) const;

  std::size_t stride_ = 0;
  std::size_t resources_ = 0;
  std::size_t rows_ = 0;
  std::size_t blocks_ = 0;
  // What was read last, by place: `order_` says of each place its row, `places_` of each row its
  // place. Blocks are of places beside each other.
  std::vector<std::size_t> order_, places_;
  std::vector<std::int64_t> offered_, taken_, scored_, place_ranks_;
  std::vector<std::uint8_t> open_places_;
  bool by_use_ = false;  // rows are ordered so, not as they were given
  // Since rows were ordered last: how many changed; how many searches looked at how many.
  std::size_t changed_ = 0, searches_ = 0, searched_ = 0;
  // By resource and block, of open rows alone; 0 where no row is open.
  std::vector<std::int64_t> least_offered_, most_offered_, least_taken_, most_taken_;
  std::vector<std::int64_t> least_scored_, most_scored_, most_free_, nothing_;
  // By block: how many rows are open, the lowest rank, and the highest total that a row may have.
  std::vector<std::size_t> open_rows_;
  std::vector<std::int64_t> ranks_, limits_;
  // Of the call of best() under way, where there are answers, by place: what may be chosen, and
  // ratings where these are not by row.
  std::vector<std::uint8_t> allowed_, allowed_rows_;
  std::vector<RowRating> ratings_;
  std::vector<std::size_t> sooner_;  // blocks in the order in which they are looked at
  std::vector<std::vector<std::int64_t>> raw_;
  std::vector<Rated> rated_;
  std::vector<std::int64_t> ends_;  // of a rating, by block: the least, the most
  std::size_t looked_at_ = 0;
};

}  // namespace koord::placement
