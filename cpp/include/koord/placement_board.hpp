// SPDX-License-Identifier: Apache-2.0
// A board: for one kind of pod, what filters and scores say of every row, and which row is best.
//
//   Board board(5000, {{.weight = 1}, {.weight = 3, .normalization = Normalization::kReversed}});
//   board.refuse(0, {.first = 0, .count = 5000}, passes);     // filter 0 on all rows
//   board.rate(1, {.index = changed.data(), .count = 1}, raw);  // score 1 on one row
//   const std::int64_t row = board.best();                    // -1: none is feasible
//
// A row is feasible while no filter refuses it. Scores are normalised among feasible rows, weighted
// and added up; the highest total wins, among equals the lowest rank. Rows are kept in blocks of
// 64 and blocks in groups of 64: a change costs one block, a look at the heads of its group and at
// those of all groups, unless it moves a bound that scores are normalised by: then all rows are
// added up anew.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "koord/error.hpp"

namespace koord::placement {

/// Some rows: those of an index, or `count` in a row from `first` on where index is null.
struct RowSet {
  const std::int64_t* index = nullptr;
  std::int64_t first = 0;
  std::size_t count = 0;

  [[nodiscard]] std::int64_t operator[](std::size_t i) const {
    return index != nullptr ? index[i] : first + static_cast<std::int64_t>(i);
  }
};

/// How raw scores become 0..100 among feasible rows (Kubernetes: NormalizeScore). All divisions
/// truncate; raw scores are at least 0 but for kNone, kMinMax and kSpread.
enum class Normalization : std::uint8_t {
  kNone,      ///< they are already
  kDefault,   ///< 100 s / max; 0 everywhere where max is 0
  kReversed,  ///< 100 minus kDefault
  kMinMax,    ///< 100 (s - min) / (max - min); 0 everywhere where all are equal
  kSpread,  ///< 100 (max + min - s) / max, 100 where max is 0; negative s: 0, and left out of both
};

/// One scoring plugin.
struct ScoreRule {
  std::int64_t weight = 1;
  Normalization normalization = Normalization::kNone;
};

/// A score's part of the totals of some rows: raw scores times a weight, or parts as they are.
struct Addend {
  const std::int64_t* raw = nullptr;
  const std::int32_t* parts = nullptr;
  std::int64_t weight = 1;
};

/// Who goes first among equal rows: the lowest. Many boards of as many rows share one.
class KOORD_API Ranks {
 public:
  /// Rows beyond the span keep their order after it.
  Ranks(std::size_t rows, std::span<const std::int64_t> ranks);

  [[nodiscard]] std::size_t rows() const { return ranks_.size(); }
  [[nodiscard]] std::int64_t operator[](std::size_t row) const { return ranks_[row]; }

  /// The lowest of each block of rows, and of each group of blocks.
  [[nodiscard]] std::span<const std::int64_t> blocks() const { return blocks_; }
  [[nodiscard]] std::span<const std::int64_t> groups() const { return groups_; }

 private:
  std::vector<std::int64_t> ranks_;
  std::vector<std::int64_t> blocks_;
  std::vector<std::int64_t> groups_;
};

/// See the head of this file.
class KOORD_API Board {
 public:
  /// Filters are numbered 0 to 62; the last bit is for rows that are closed.
  static constexpr unsigned kClosed = 63;
  static constexpr std::size_t kBlock = 64;  // rows
  static constexpr std::size_t kGroup = 64;  // blocks

  /// All rows are closed at first, no score applies. kInvalid for more than 62 scores, and for
  /// weights beyond 0 to 1,000,000. Rows go in their order where no ranks are given; errors are
  /// those of set_ranks().
  Board(std::size_t rows, const std::vector<ScoreRule>& scores,
        std::shared_ptr<const Ranks> ranks = nullptr);

  /// The same as a new board of as many rows, but for the ranks, which stay, and for flips(), which
  /// goes on; with `keep_closed` the rows that were open are open. It needs no new memory. Errors
  /// are those of the constructor.
  void reset(const std::vector<ScoreRule>& scores, bool keep_closed = false);

  [[nodiscard]] std::size_t rows() const { return refused_.size(); }
  [[nodiscard]] std::size_t scores() const { return columns_.size(); }

  /// How many bytes of memory it has, ranks not included.
  [[nodiscard]] std::size_t bytes() const;

  /// Who goes first among equals. kInvalid for ranks of another number of rows.
  void set_ranks(std::shared_ptr<const Ranks> ranks);
  void set_ranks(std::span<const std::int64_t> ranks);

  /// What a filter says of rows: 0 refuses. kInvalid for a filter, kNotFound for a row out of
  /// range.
  void refuse(unsigned filter, RowSet rows, std::span<const std::uint8_t> passes);

  /// The same by what a row would have left: below 0 refuses.
  void refuse_where_short(unsigned filter, RowSet rows, std::span<const std::int64_t> left);

  /// The filter has nothing to say: it refuses no row. kClosed cannot be cleared.
  void clear(unsigned filter);

  /// Raw scores of rows; others of a score that did not apply so far are 0. kInvalid for one beyond
  /// 2^36 (kNone) or 2^56 either way; rows before it are rated.
  void rate(std::size_t score, RowSet rows, std::span<const std::int64_t> raw);

  /// The raw scores of rows in a row, to be written before the board is used again, within the
  /// bounds of rate(), whose errors these are. kInvalid for rows by an index.
  std::span<std::int64_t> rated_rows(std::size_t score, RowSet rows);

  /// The score does not apply: it adds nothing.
  void skip(std::size_t score);

  /// The best feasible row, -1 if there is none.
  [[nodiscard]] std::int64_t best();

  /// The best row among feasible rows whose mask is not 0; scores are normalised among these only.
  /// Rows beyond the mask are left out.
  [[nodiscard]] std::int64_t best_of(std::span<const std::uint8_t> mask) const;

  /// How many rows are feasible; how often any row became feasible or ceased to be.
  [[nodiscard]] std::size_t feasible() const { return feasible_; }
  [[nodiscard]] std::uint64_t flips() const { return flips_; }

  /// By row, a bit for each filter that refuses it.
  [[nodiscard]] std::span<const std::uint64_t> refused() const { return refused_; }

  /// By row, the raw score; empty where the score does not apply.
  [[nodiscard]] std::span<const std::int64_t> raw(std::size_t score) const;

 private:
  struct Bounds {
    std::int64_t least = 0;
    std::int64_t most = 0;

    void include(const Bounds& other);
    bool operator==(const Bounds&) const = default;
  };

  struct Column {
    ScoreRule rule = {};
    bool active = false;
    std::vector<std::int64_t> raw = {};
    // Of normalised scores only: what feasible rows' totals have of it, and the bounds of these
    // rows by block (least > most: there are none), by group and in all.
    std::vector<std::int32_t> parts = {};
    std::vector<Bounds> blocks = {};
    std::vector<Bounds> groups = {};
    Bounds bounds = {};
    // By raw score from the least on, what it adds to the total; empty where that is too many.
    std::vector<std::int64_t> scaled = {};
  };

  // The best row of a block, or of a group of blocks, and its total; kNone where no row is
  // feasible, kUnknown where nobody has asked yet which row it is.
  static constexpr std::int64_t kNone = -1;
  static constexpr std::int64_t kUnknown = -2;
  struct Head {
    std::int64_t row = kNone;
    std::int64_t total = 0;
  };

  // What changed in a block: a bit a column, one for the rows that are feasible, one for totals.
  static constexpr std::uint64_t kFlipped = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kMoved = std::uint64_t{1} << 62;
  // Between so many raw scores a table is faster than a division a row.
  static constexpr std::int64_t kTable = 1024;

  void touch(std::size_t block, std::uint64_t what);
  void touch_all(std::uint64_t what);
  void settle();
  void settle_column(Column& column, std::uint64_t bit);
  void bound_block(Column& column, std::size_t block) const;
  void bound_group(Column& column, std::size_t group) const;
  bool bound(Column& column);
  void tabulate(Column& column);
  void part_block(Column& column, std::size_t block);
  void head_block(std::size_t block);
  void find_row(std::size_t block);
  void find_group_row(std::size_t group);
  static Head highest(std::span<const Head> heads);
  template <class Find>
  std::int64_t first_row(std::span<const Head> heads, std::int64_t total,
                         std::span<const std::int64_t> first_ranks, const Find& find);
  template <class Use>
  void by_group(std::uint64_t ways, const Use& use);
  void set_refused(std::size_t row, std::uint64_t bits);
  template <class Answer>
  void refuse_rows_in_a_row(std::uint64_t bit, RowSet rows, std::span<const Answer> answers);
  template <class Answer, class Refuses>
  void refuse_any(unsigned filter, RowSet rows, std::span<const Answer> answers,
                  const Refuses& refuses);
  template <class Use>
  void by_block(RowSet rows, const Use& use);
  void activate(Column& column, std::size_t first, std::size_t count);
  [[nodiscard]] std::size_t end_of(std::size_t block) const;
  [[nodiscard]] std::size_t blocks_of(std::size_t group) const;
  [[nodiscard]] std::size_t checked_row(std::int64_t row) const;
  void check_rows(RowSet rows) const;
  static std::int64_t most_raw(Normalization kind);
  static bool all_within(Normalization kind, std::span<const std::int64_t> raw);
  static void check_raw(Normalization kind, std::span<const std::int64_t> raw);
  Column& checked_score(std::size_t score);

  std::vector<std::uint64_t> refused_;
  std::shared_ptr<const Ranks> ranks_;
  std::vector<Head> heads_;   // by block
  std::vector<Head> groups_;  // by group
  std::vector<Column> columns_;
  std::vector<std::uint64_t> touched_;  // by block
  std::vector<std::size_t> pending_;    // touched blocks
  std::vector<std::uint8_t> marked_;    // by group, whether it is in changed_
  std::vector<std::size_t> changed_;    // groups that are looked at
  std::vector<Addend> addends_;         // of the block that is looked at
  std::size_t feasible_ = 0;
  std::uint64_t flips_ = 0;
};

}  // namespace koord::placement
