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
// other in many tables, and of equals the one with the lowest rank is found first. Once one in 32
// of the rows has changed, and searches since the last time have looked at more than a quarter of
// them on average, rows are ordered by how much of resources 0 and 1 is taken instead, so that
// those of a block are alike; and back where that is no better. So long as they are ordered by use,
// every 32nd part that changes orders them anew; at no other time do rows move from block to block.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "koord/error.hpp"
#include "koord/placement_board.hpp"
#include "koord/placement_fit.hpp"
#include "koord/placement_load.hpp"
#include "koord/placement_reserved.hpp"

namespace koord::placement {

/// Raw scores by row that are no checks' or scores' over columns, and what becomes of them.
struct RowRating {
  ScoreRule rule = {};
  std::span<const std::int64_t> raw = {};

  [[nodiscard]] bool normalised() const { return rule.normalization != Normalization::kNone; }
};

/// Reservations for a pod, asked about the rows that are looked at alone. What they are filled is
/// normalised as Normalization::kDefault does it.
struct ReservedAnswers {
  const ReservedBounds* bounds = nullptr;  ///< null: there are no reservations
  ReservedQuestion question = {};
  std::int64_t weight = 0;
};

/// A bit a row, in words of 64: the first row is the lowest bit of the first word.
using RowBits = std::span<const std::uint64_t>;

/// What a pod would rather have: a row's raw score is the sum of the weights, 0 to 1,000,000, of
/// the conditions that hold of it. Normalised as Normalization::kDefault does it.
struct Preferences {
  struct Condition {
    std::int64_t weight = 0;
    RowBits rows = {};
  };

  std::int64_t weight = 0;
  std::vector<Condition> conditions = {};
};

/// Load by row. Under one key the columns are the same, and change only where rows are read again.
struct RowLoad {
  std::uint64_t key = 0;
  std::int64_t weight = 0;
  LoadRating rating = {};
};

/// What is known of rows beside their columns: 0 in any of the masks refuses.
struct RowAnswers {
  std::vector<std::span<const std::uint8_t>> masks = {};
  std::vector<RowRating> ratings = {};
  ReservedAnswers reserved = {};
  std::vector<RowBits> bit_masks = {};
  std::vector<Preferences> preferences = {};
  std::vector<LoadCheck> load_checks = {};
  std::vector<RowLoad> loads = {};
};

/// See the head of this file.
class KOORD_API RowBounds {
 public:
  static constexpr std::size_t kBlock = 32;  // rows

  /// `keeps_order`: rows stay in the order that they are given in, as those of ReservedBounds do;
  /// for searches beside reservations.
  explicit RowBounds(bool keeps_order = false) : keeps_order_(keeps_order) {}

  /// Reads the columns of rows again; `open` and `ranks` are by row. Of other numbers of rows,
  /// ranks or resources than before all rows are to be given: kInvalid for fewer, and for more
  /// ranks than rows; kNotFound for a row out of range.
  void update(const Columns& columns, RowSet rows, std::span<const std::uint8_t> open,
              std::span<const std::int64_t> ranks);

  /// The row that all checks let pass with the highest sum of scores times their weights, the
  /// lowest rank among equals; -1 if there is none. Columns, `open` and `ranks` count as update()
  /// has read them; further answers by row count as a board's do, normalised among rows that
  /// nothing refuses. kInvalid for those of other sizes, for another number of weights than there
  /// are scores, for weights below 0, for those of ratings, preferences, loads and reservations
  /// beyond 1,000,000, for raw scores as in Board::rate(), and for reservations where rows are
  /// ordered by use; other errors are those of the checks and scores, of check_question(), of
  /// reserved_answers(), of load_within() and of load_scores().
  [[nodiscard]] std::int64_t best(const Rooms& rooms, std::span<const std::int64_t> weights,
                                  const RowAnswers& answers = {});

  /// How many rows the last call of best() has looked at, without those of which it has asked no
  /// more than how full their reservations would be.
  [[nodiscard]] std::size_t looked_at() const { return looked_at_; }

 private:
  class Search;
  // A rating with the bounds that it is normalised by.
  struct Rated {
    RowRating rating;
    std::int64_t least = 0;
    std::int64_t most = 0;
  };
  // Preferences with the most that any row gets.
  struct Preferred {
    const Preferences* given = nullptr;
    std::int64_t most = 0;
  };

  // Load under a key as it was read last, by place; and by row whether it is to be read again.
  struct LoadPlaces {
    std::uint64_t key = 0;
    std::size_t resources = 0;
    std::vector<std::int64_t> used = {};
    std::vector<std::int64_t> capacity = {};
    std::vector<double> until = {};
    std::vector<std::size_t> due = {};  // rows
    bool all_due = true;
  };

  // Rows are read (placement_bounds.cpp).
  void resize(const Columns& columns, std::size_t rows);
  void copy_row(std::size_t row, const Columns& columns, std::span<const std::uint8_t> open,
                std::span<const std::int64_t> ranks);
  void read_blocks(RowSet rows);
  void read_block(std::size_t block);
  void read_resource(std::size_t block, std::size_t resource, std::span<const std::size_t> places);
  void read_scored(std::size_t block, std::size_t resource, std::span<const std::size_t> places);

  // What was read last: of rows, by place; of blocks, each as a row that has the most of everything
  // and of which the least is taken, one the other way round, and one that has as much as any row
  // of the block has left.
  [[nodiscard]] Columns kept() const;
  [[nodiscard]] Columns most() const;
  [[nodiscard]] Columns least() const;
  [[nodiscard]] Columns free() const;

  // Rows are ordered (placement_bounds_order.cpp).
  [[nodiscard]] bool is_order_due();
  void order_rows(const Columns& columns, std::span<const std::uint8_t> open,
                  std::span<const std::int64_t> ranks);
  void order_by_use(std::span<const std::uint8_t> open);
  [[nodiscard]] std::uint64_t share_of(std::size_t row, std::size_t resource,
                                       std::span<const std::uint8_t> open) const;

  // Blocks are limited by columns (placement_bounds_limits.cpp).
  void limit_blocks(const Rooms& rooms, std::span<const std::int64_t> weights);
  void limit_part(const Rooms& rooms, std::span<const std::int64_t> weights, RowSet part);
  void limit_score(const RoomScore& score, RowSet part, std::span<std::int64_t> most) const;
  void limit_mixed(const RoomScore& score, RowSet part, std::span<std::int64_t> most) const;
  // Writes what is left, below 0 where any check refuses.
  static void left_by_checks(const Rooms& rooms, const Columns& columns, RowSet part,
                             std::span<std::int64_t> left);

  // ... by answers (placement_bounds_answers.cpp).
  void limit_answers(const Rooms& rooms, const RowAnswers& answers);
  void limit_ratings(const Rooms& rooms, const RowAnswers& answers);
  void allow_masks(const RowAnswers& answers);
  void allow_room(const Rooms& rooms, RowSet part);
  void limit_allowed();
  void take_ratings(const RowAnswers& answers);
  void limit_rating(const RowRating& rating);
  std::pair<std::int64_t, std::int64_t> bound_rating(const RowRating& rating);

  // ... by answers that are bits, of one block after the other (placement_bounds_bits.cpp).
  void join_bits(const RowAnswers& answers);
  void allow_bits(std::size_t block);
  void refine(std::size_t block);
  void prefer(std::size_t block);
  void limit_preferences(const Rooms& rooms, const RowAnswers& answers);
  std::int64_t most_preferred(const Rooms& rooms, const Preferences& given);
  [[nodiscard]] std::uint64_t left_of_word(std::size_t word) const;
  [[nodiscard]] std::uint64_t bits_of_block(RowBits rows, std::size_t block) const;
  [[nodiscard]] bool may_go(const Rooms& rooms, std::size_t row) const;
  [[nodiscard]] std::int64_t preference(const Preferences& given, std::size_t place) const;

  // ... and by reservations (placement_bounds_reserved.cpp).
  void limit_reserved(const Rooms& rooms, const RowAnswers& answers);
  void bound_fills(const ReservedAnswers& reserved);
  std::int64_t most_filled(const Rooms& rooms, const RowAnswers& answers);
  void ask_reserved(const Rooms& rooms, const ReservedAnswers& reserved, std::size_t block);

  // ... and by load (placement_bounds_load.cpp).
  [[nodiscard]] RowAnswers with_load_masks(const RowAnswers& answers);
  void limit_loads(const RowAnswers& answers);
  LoadPlaces& places_of(const RowLoad& load);
  void read_load(const RowLoad& load, LoadPlaces& places);
  void note_load_due(RowSet rows, bool all);
  [[nodiscard]] RowSet rows_of(std::size_t first, std::size_t count,
                               std::span<std::int64_t> numbers) const;

  // Where a search begins (placement_bounds_search.cpp).
  [[nodiscard]] std::size_t first_block() const;

  [[nodiscard]] std::size_t size_of(std::size_t block) const {
    return rows_ - block * kBlock < kBlock ? rows_ - block * kBlock : kBlock;
  }
  static RowSet in_a_row(std::size_t first, std::size_t count) {
    return {.index = nullptr, .first = static_cast<std::int64_t>(first), .count = count};
  }

  std::size_t stride_ = 0;  // of the columns that were read last
  std::size_t resources_ = 0;
  std::size_t rows_ = 0;
  std::size_t blocks_ = 0;

  // `order_` says of each place its row, `places_` of each row its place. Blocks are of places
  // beside each other.
  std::vector<std::size_t> order_, places_;
  bool keeps_order_ = false;
  bool by_use_ = false;  // rows are ordered so, not as they were given
  // Since it was last decided how to order rows: how many changed; how many searches looked at how
  // many.
  std::size_t changed_ = 0, searches_ = 0, searched_ = 0;

  // What was read last, by place; of columns by resource too.
  std::vector<std::int64_t> offered_, taken_, scored_, place_ranks_;
  std::vector<std::uint8_t> open_places_;
  // By resource and block, of open rows alone: of blocks without any they mean nothing.
  std::vector<std::int64_t> least_offered_, most_offered_, least_taken_, most_taken_;
  std::vector<std::int64_t> least_scored_, most_scored_, most_free_;
  std::vector<std::int64_t> nothing_;  // 0 everywhere
  // By block: how many rows are open, and the lowest rank of these.
  std::vector<std::size_t> open_rows_;
  std::vector<std::int64_t> ranks_;

  // Of the call of best() under way; kept for their memory. By block, the highest total that a row
  // may have.
  std::vector<std::int64_t> limits_;
  // Where there are answers: what may be chosen, by place and as masks say by row; ratings by place
  // (`raw_` where these are not by row), and with their bounds; of one of them by block the least
  // and the most.
  std::vector<std::uint8_t> allowed_, allowed_rows_;
  std::vector<RowRating> ratings_;
  std::vector<std::vector<std::int64_t>> raw_;
  std::vector<Rated> rated_;
  std::vector<std::int64_t> ends_;
  // Of answers that are bits: the rows that masks leave, empty for all; preferences; of one of them
  // by word of rows the most. By block, whether its limit leaves them out so far; empty for none.
  std::vector<std::uint64_t> left_bits_;
  std::vector<Preferred> preferred_;
  std::vector<std::int64_t> hoped_;
  std::vector<std::uint8_t> coarse_;
  // Of reservations: by block whether its rows were asked about, and the most they may be filled;
  // by row how full they would be.
  std::vector<std::uint8_t> asked_;
  std::vector<std::int64_t> fills_, filled_;
  std::vector<LoadPlaces> load_places_;
  std::vector<std::vector<std::int64_t>> load_scores_;  // of the loads asked about, by place
  // Where what is normalised depends on whom load refuses: the masks of its checks.
  std::vector<std::vector<std::uint8_t>> load_masks_;
  std::vector<std::size_t> sooner_;  // blocks in the order in which they are looked at
  std::size_t looked_at_ = 0;
};

}  // namespace koord::placement
