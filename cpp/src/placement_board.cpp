// SPDX-License-Identifier: Apache-2.0
#include "koord/placement_board.hpp"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "board_rows.hpp"
#include "placement_normal.hpp"

namespace koord::placement {

Ranks::Ranks(std::size_t rows, std::span<const std::int64_t> ranks) : ranks_(rows) {
  blocks_.assign((rows + Board::kBlock - 1) / Board::kBlock, kHighest);
  groups_.assign((blocks_.size() + Board::kGroup - 1) / Board::kGroup, kHighest);
  for (std::size_t row = 0; row < rows; ++row) {
    ranks_[row] = row < ranks.size() ? ranks[row] : static_cast<std::int64_t>(row);
    std::int64_t& first = blocks_[row / Board::kBlock];
    first = std::min(first, ranks_[row]);
  }
  for (std::size_t block = 0; block < blocks_.size(); ++block) {
    std::int64_t& first = groups_[block / Board::kGroup];
    first = std::min(first, blocks_[block]);
  }
}

Board::Board(std::size_t rows, const std::vector<ScoreRule>& scores,
             std::shared_ptr<const Ranks> ranks)
    : refused_(rows) {
  reset(scores);
  set_ranks(ranks ? std::move(ranks)
                  : std::make_shared<const Ranks>(rows, std::span<const std::int64_t>{}));
}

std::size_t Board::bytes() const {
  const auto size = [](const auto& values) { return values.capacity() * sizeof(values[0]); };
  std::size_t found = size(refused_) + size(heads_) + size(groups_) + size(touched_) +
                      size(pending_) + size(marked_) + size(changed_) + size(columns_);
  for (const Column& column : columns_) {
    found += size(column.raw) + size(column.parts) + size(column.blocks) + size(column.groups) +
             size(column.scaled);
  }
  return found;
}

void Board::reset(const std::vector<ScoreRule>& scores, bool keep_closed) {
  if (scores.size() > 62) throw Exception(invalid("scores", std::to_string(scores.size()), "62"));
  for (const ScoreRule& rule : scores) {
    if (rule.weight >= 0 && rule.weight <= 1'000'000) continue;
    throw Exception(invalid("weight", std::to_string(rule.weight), "0 to 1000000"));
  }
  const std::size_t blocks = (rows() + kBlock - 1) / kBlock;
  if (!keep_closed) refused_.assign(rows(), std::uint64_t{1} << kClosed);
  heads_.assign(blocks, {});
  groups_.assign((blocks + kGroup - 1) / kGroup, {});
  marked_.assign(groups_.size(), 0);
  touched_.assign(blocks, 0);
  pending_.clear();
  feasible_ = 0;
  for (std::size_t block = 0; keep_closed && block < blocks; ++block) {
    const std::size_t from = block * kBlock;
    const std::size_t open = open_rows(std::span(refused_).subspan(from, end_of(block) - from),
                                       std::uint64_t{1} << kClosed);
    if (open != 0) touch(block, kFlipped | kMoved);
    feasible_ += open;
  }
  // A count that whoever asked before has not seen.
  ++flips_;
  columns_.resize(scores.size());
  for (std::size_t score = 0; score < scores.size(); ++score) {
    columns_[score].rule = scores[score];
    columns_[score].active = false;
  }
}

std::size_t Board::end_of(std::size_t block) const {
  return std::min(rows(), (block + 1) * kBlock);
}

std::size_t Board::blocks_of(std::size_t group) const {
  return std::min(heads_.size() - group * kGroup, kGroup);
}

std::size_t Board::checked_row(std::int64_t row) const {
  if (row >= 0 && static_cast<std::size_t>(row) < rows()) return static_cast<std::size_t>(row);
  throw Exception(not_found("row", std::to_string(row), "a row of the board"));
}

void Board::check_rows(RowSet rows) const {
  const std::size_t size = this->rows();
  bool beyond = false;  // row numbers below 0 are beyond, too
  for (std::size_t i = 0; i < rows.count; ++i) {
    beyond |= static_cast<std::uint64_t>(rows[i]) >= size;
  }
  for (std::size_t i = 0; beyond && i < rows.count; ++i) static_cast<void>(checked_row(rows[i]));
}

// Calls use(first row, its place among the rows, count) for the part of each block.
template <class Use>
void Board::by_block(RowSet rows, const Use& use) {
  if (rows.count == 0) return;
  const std::size_t start = checked_row(rows.first);
  const std::size_t end = checked_row(rows.first + static_cast<std::int64_t>(rows.count) - 1) + 1;
  for (std::size_t first = start; first < end;) {
    const std::size_t to = std::min(end, end_of(first / kBlock));
    use(first, first - start, to - first);
    first = to;
  }
}

// Weighted and summed over all scores, or times 100 and less the least one, none leaves 64 bits.
std::int64_t Board::most_raw(Normalization kind) {
  return std::int64_t{1} << (kind == Normalization::kNone ? 36 : 56);
}

bool Board::all_within(Normalization kind, std::span<const std::int64_t> raw) {
  const std::int64_t most = most_raw(kind);
  // Whatever is not surely within has some higher bit: then they are looked at one by one.
  std::uint64_t shifted = 0;
  for (const std::int64_t each : raw) {
    shifted |= static_cast<std::uint64_t>(each) + static_cast<std::uint64_t>(most);
  }
  return shifted < 2 * static_cast<std::uint64_t>(most);
}

void Board::check_raw(Normalization kind, std::span<const std::int64_t> raw) {
  if (all_within(kind, raw)) return;
  const std::int64_t most = most_raw(kind);
  for (const std::int64_t each : raw) {
    if (each >= -most && each <= most) continue;
    throw Exception(invalid("raw score", std::to_string(each),
                            kind == Normalization::kNone ? "within 2^36" : "within 2^56"));
  }
}

Board::Column& Board::checked_score(std::size_t score) {
  if (score < columns_.size()) return columns_[score];
  throw Exception(not_found("score", std::to_string(score), "a score of the board"));
}

void Board::touch(std::size_t block, std::uint64_t what) {
  if (touched_[block] == 0) pending_.push_back(block);
  touched_[block] |= what;
}

void Board::touch_all(std::uint64_t what) {
  for (std::size_t block = 0; block < heads_.size(); ++block) touch(block, what);
}

void Board::set_ranks(std::span<const std::int64_t> ranks) {
  set_ranks(std::make_shared<const Ranks>(rows(), ranks));
}

void Board::set_ranks(std::shared_ptr<const Ranks> ranks) {
  if (ranks->rows() != rows()) {
    throw Exception(invalid("ranks", std::to_string(ranks->rows()) + " rows",
                            std::to_string(rows()) + ", one a row of the board"));
  }
  ranks_ = std::move(ranks);
  touch_all(kFlipped | kMoved);
}

void Board::set_refused(std::size_t row, std::uint64_t bits) {
  const std::uint64_t before = refused_[row];
  if (before == bits) return;
  refused_[row] = bits;
  if ((before == 0) == (bits == 0)) return;
  ++flips_;
  feasible_ += bits == 0 ? std::size_t{1} : ~std::size_t{0};
  touch(row / kBlock, kFlipped | kMoved);
}

template <class Answer>
void Board::refuse_rows_in_a_row(std::uint64_t bit, RowSet rows, std::span<const Answer> answers) {
  by_block(rows, [&](std::size_t first, std::size_t at, std::size_t count) {
    const auto [flipped, opened] = refuse_rows(bit, answers.subspan(at, count), &refused_[first]);
    if (flipped == 0) return;
    flips_ += flipped;
    feasible_ += opened;
    touch(first / kBlock, kFlipped | kMoved);
  });
}

template <class Answer, class Refuses>
void Board::refuse_any(unsigned filter, RowSet rows, std::span<const Answer> answers,
                       const Refuses& refuses) {
  if (filter > kClosed) throw Exception(invalid("filter", std::to_string(filter), "0 to 63"));
  if (answers.size() != rows.count) {
    throw Exception(invalid("passes", std::to_string(answers.size()), "one a row"));
  }
  const std::uint64_t bit = std::uint64_t{1} << filter;
  if (rows.index == nullptr) return refuse_rows_in_a_row(bit, rows, answers);
  check_rows(rows);
  for (std::size_t i = 0; i < rows.count; ++i) {
    const auto row = static_cast<std::size_t>(rows[i]);
    set_refused(row, refuses(answers[i]) ? refused_[row] | bit : refused_[row] & ~bit);
  }
}

void Board::refuse(unsigned filter, RowSet rows, std::span<const std::uint8_t> passes) {
  refuse_any(filter, rows, passes, [](std::uint8_t each) { return each == 0; });
}

void Board::refuse_where_short(unsigned filter, RowSet rows, std::span<const std::int64_t> left) {
  refuse_any(filter, rows, left, [](std::int64_t each) { return each < 0; });
}

void Board::clear(unsigned filter) {
  if (filter >= kClosed) throw Exception(invalid("filter", std::to_string(filter), "0 to 62"));
  const std::uint64_t bit = std::uint64_t{1} << filter;
  for (std::size_t row = 0; row < rows(); ++row) set_refused(row, refused_[row] & ~bit);
}

void Board::rate(std::size_t score, RowSet rows, std::span<const std::int64_t> raw) {
  Column& column = checked_score(score);
  if (raw.size() != rows.count) {
    throw Exception(invalid("raw", std::to_string(raw.size()), "one a row"));
  }
  if (rows.index == nullptr && all_within(column.rule.normalization, raw)) {
    std::ranges::copy(raw, rated_rows(score, rows).begin());
    return;
  }
  // All at once first: with a question a row this took twice as long.
  check_raw(column.rule.normalization, raw);
  check_rows(rows);
  activate(column, 0, 0);
  const bool plain = column.rule.normalization == Normalization::kNone;
  const std::uint64_t what = std::uint64_t{1} << score | (plain ? kMoved : 0);
  for (std::size_t i = 0; i < rows.count; ++i) {
    const auto row = static_cast<std::size_t>(rows[i]);
    if (raw[i] == column.raw[row]) continue;
    column.raw[row] = raw[i];
    if (refused_[row] == 0) touch(row / kBlock, what);
  }
}

std::span<std::int64_t> Board::rated_rows(std::size_t score, RowSet rows) {
  if (rows.index != nullptr) throw Exception(invalid("rows", "an index", "rows in a row"));
  Column& column = checked_score(score);
  const std::size_t count = rows.count;
  const std::size_t first = count == 0 ? 0 : checked_row(rows.first);
  if (count != 0) static_cast<void>(checked_row(rows[count - 1]));
  activate(column, first, count);
  const bool plain = column.rule.normalization == Normalization::kNone;
  const std::uint64_t what = std::uint64_t{1} << score | (plain ? kMoved : 0);
  for (std::size_t block = first / kBlock; block * kBlock < first + count; ++block) {
    touch(block, what);
  }
  return std::span<std::int64_t>(column.raw).subspan(first, count);
}

// A score that did not apply has all rows at 0, but for those that are about to be written.
void Board::activate(Column& column, std::size_t first, std::size_t count) {
  if (column.active) return;
  column.active = true;
  column.raw.resize(rows());
  std::fill_n(column.raw.begin(), first, std::int64_t{0});
  std::fill(column.raw.begin() + static_cast<std::ptrdiff_t>(first + count), column.raw.end(),
            std::int64_t{0});
  if (column.rule.normalization == Normalization::kNone) return;
  column.parts.assign(rows(), 0);
  column.blocks.assign(heads_.size(), {});
  column.groups.assign(groups_.size(), {});
  column.bounds = {};
  column.scaled = {};
  touch_all(std::uint64_t{1} << (&column - columns_.data()));
}

void Board::skip(std::size_t score) {
  Column& column = checked_score(score);
  if (!column.active) return;
  column.active = false;
  column.raw = {};
  column.parts = {};
  column.blocks = {};
  column.groups = {};
  column.scaled = {};
  touch_all(kMoved);
}

std::span<const std::int64_t> Board::raw(std::size_t score) const {
  if (score >= columns_.size()) {
    throw Exception(not_found("score", std::to_string(score), "a score of the board"));
  }
  if (!columns_[score].active) return {};
  return columns_[score].raw;
}

void Board::bound_block(Column& column, std::size_t block) const {
  // Negative scores of kSpread do not count; all others do.
  const std::int64_t floor = column.rule.normalization == Normalization::kSpread ? 0 : kLowest;
  std::int64_t least = kHighest;
  std::int64_t most = kLowest;
  const std::size_t end = end_of(block);
  for (std::size_t row = block * kBlock; row < end; ++row) {
    const std::int64_t raw = column.raw[row];
    const bool counted = refused_[row] == 0 && raw >= floor;
    least = counted && raw < least ? raw : least;
    most = counted && raw > most ? raw : most;
  }
  column.blocks[block] = {least, most};
}

void Board::Bounds::include(const Bounds& other) {
  least = std::min(least, other.least);
  most = std::max(most, other.most);
}

void Board::bound_group(Column& column, std::size_t group) const {
  Bounds bounds{kHighest, kLowest};
  for (std::size_t block = group * kGroup; block < group * kGroup + blocks_of(group); ++block) {
    bounds.include(column.blocks[block]);
  }
  column.groups[group] = bounds;
}

bool Board::bound(Column& column) {
  Bounds bounds{kHighest, kLowest};
  for (const Bounds& group : column.groups) bounds.include(group);
  const Normalization kind = column.rule.normalization;
  if (kind == Normalization::kDefault || kind == Normalization::kReversed) bounds.least = 0;
  if (bounds == column.bounds) return false;
  column.bounds = bounds;
  return true;
}

void Board::tabulate(Column& column) {
  const auto [least, most] = column.bounds;
  column.scaled.clear();
  if (least > most || most - least >= kTable) return;
  normalising(column.rule.normalization, least, most, [&](const auto& score) {
    for (std::int64_t raw = least; raw <= most; ++raw) {
      column.scaled.push_back(column.rule.weight * score(raw));
    }
  });
}

void Board::part_block(Column& column, std::size_t block) {
  const std::size_t to = end_of(block);
  bool moved = false;
  const auto put = [&](const auto& part_of) {
    for (std::size_t row = block * kBlock; row < to; ++row) {
      // Refused rows have no total.
      if (refused_[row] != 0) continue;
      const std::int64_t part = part_of(column.raw[row]);
      moved |= part != column.parts[row];
      column.parts[row] = static_cast<std::int32_t>(part);
    }
  };
  const auto [least, most] = column.bounds;
  if (!column.scaled.empty()) {
    const bool spread = column.rule.normalization == Normalization::kSpread;
    const std::int64_t below = spread ? 0 : column.scaled.front();
    put([&, from = least](std::int64_t raw) {
      return raw < from ? below : column.scaled[static_cast<std::size_t>(raw - from)];
    });
  } else {
    normalising(column.rule.normalization, least, most, [&](const auto& score) {
      put([&](std::int64_t raw) { return column.rule.weight * score(raw); });
    });
  }
  if (moved) touch(block, kMoved);
}

// The highest total of a block. In which row it is needs not be known of most blocks.
void Board::head_block(std::size_t block) {
  const std::size_t from = block * kBlock;
  const std::size_t count = end_of(block) - from;
  addends_.clear();
  for (const Column& column : columns_) {
    if (!column.active) continue;
    if (column.rule.normalization == Normalization::kNone) {
      addends_.push_back({&column.raw[from], nullptr, column.rule.weight});
    } else {
      addends_.push_back({nullptr, &column.parts[from], 1});
    }
  }
  heads_[block] = {kUnknown, best_total({&refused_[from], count}, addends_)};
  if (heads_[block].total == kLowest) heads_[block] = {};
}

// The row of a block's highest total, of the lowest rank among equals.
void Board::find_row(std::size_t block) {
  Head& head = heads_[block];
  for (std::size_t row = block * kBlock; row < end_of(block); ++row) {
    if (refused_[row] != 0) continue;
    if (head.row >= 0 && (*ranks_)[row] >= (*ranks_)[static_cast<std::size_t>(head.row)]) continue;
    std::int64_t total = 0;
    for (const Column& column : columns_) {
      if (!column.active) continue;
      const bool plain = column.rule.normalization == Normalization::kNone;
      total += plain ? column.rule.weight * column.raw[row] : column.parts[row];
    }
    if (total == head.total) head.row = static_cast<std::int64_t>(row);
  }
}

// Calls use(group) once for each group of a block that changed in any of the ways.
template <class Use>
void Board::by_group(std::uint64_t ways, const Use& use) {
  changed_.clear();
  for (const std::size_t block : pending_) {
    const std::size_t group = block / kGroup;
    if ((touched_[block] & ways) == 0 || marked_[group] != 0) continue;
    marked_[group] = 1;
    changed_.push_back(group);
  }
  for (const std::size_t group : changed_) {
    use(group);
    marked_[group] = 0;
  }
}

void Board::settle_column(Column& column, std::uint64_t bit) {
  for (const std::size_t block : pending_) {
    if ((touched_[block] & (bit | kFlipped)) != 0) bound_block(column, block);
  }
  by_group(bit | kFlipped, [&](std::size_t group) { bound_group(column, group); });
  if (bound(column)) {
    tabulate(column);
    for (std::size_t block = 0; block < heads_.size(); ++block) part_block(column, block);
    return;
  }
  for (const std::size_t block : pending_) {
    if ((touched_[block] & (bit | kFlipped)) != 0) part_block(column, block);
  }
}

void Board::settle() {
  if (pending_.empty()) return;
  for (std::size_t score = 0; score < columns_.size(); ++score) {
    Column& column = columns_[score];
    if (!column.active || column.rule.normalization == Normalization::kNone) continue;
    settle_column(column, std::uint64_t{1} << score);
  }
  for (const std::size_t block : pending_) {
    if ((touched_[block] & kMoved) != 0) head_block(block);
  }
  by_group(kMoved, [&](std::size_t group) {
    groups_[group] = highest(std::span(heads_).subspan(group * kGroup, blocks_of(group)));
  });
  for (const std::size_t block : pending_) touched_[block] = 0;
  pending_.clear();
}

// The highest total of several; in which row it is needs not be known.
Board::Head Board::highest(std::span<const Head> heads) {
  Head found;
  for (const Head& head : heads) {
    if (head.row == kNone || (found.row != kNone && head.total <= found.total)) continue;
    found = {kUnknown, head.total};
  }
  return found;
}

// The row of the given total among some heads, of the lowest rank; find(i) settles the row of one.
template <class Find>
std::int64_t Board::first_row(std::span<const Head> heads, std::int64_t total,
                              std::span<const std::int64_t> first_ranks, const Find& find) {
  std::int64_t found = kNone;
  for (std::size_t i = 0; i < heads.size(); ++i) {
    if (heads[i].row == kNone || heads[i].total != total) continue;
    // No row goes before the first by rank.
    if (found >= 0 && first_ranks[i] > (*ranks_)[static_cast<std::size_t>(found)]) continue;
    if (heads[i].row == kUnknown) find(i);
    const std::int64_t row = heads[i].row;
    if (found < 0 ||
        (*ranks_)[static_cast<std::size_t>(row)] < (*ranks_)[static_cast<std::size_t>(found)]) {
      found = row;
    }
  }
  return found;
}

void Board::find_group_row(std::size_t group) {
  const std::size_t from = group * kGroup;
  const std::size_t count = blocks_of(group);
  groups_[group].row =
      first_row(std::span(heads_).subspan(from, count), groups_[group].total,
                ranks_->blocks().subspan(from, count), [&](std::size_t i) { find_row(from + i); });
}

std::int64_t Board::best() {
  settle();
  const Head head = highest(groups_);
  if (head.row == kNone) return -1;
  return first_row(groups_, head.total, ranks_->groups(),
                   [&](std::size_t group) { find_group_row(group); });
}

std::int64_t Board::best_of(std::span<const std::uint8_t> mask) const {
  std::vector<std::size_t> left;
  for (std::size_t row = 0; row < std::min(mask.size(), rows()); ++row) {
    if (mask[row] != 0 && refused_[row] == 0) left.push_back(row);
  }
  std::vector<std::int64_t> totals(left.size(), 0);
  for (const Column& column : columns_) {
    if (!column.active) continue;
    Bounds bounds{kHighest, kLowest};
    for (const std::size_t row : left) {
      const std::int64_t raw = column.raw[row];
      if (!counts(column.rule.normalization, raw)) continue;
      bounds.least = std::min(bounds.least, raw);
      bounds.most = std::max(bounds.most, raw);
    }
    normalising(column.rule.normalization, bounds.least, bounds.most, [&](const auto& score) {
      for (std::size_t i = 0; i < left.size(); ++i) {
        totals[i] += column.rule.weight * score(column.raw[left[i]]);
      }
    });
  }
  std::size_t found = left.size();
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (found == left.size() || totals[i] > totals[found] ||
        (totals[i] == totals[found] && (*ranks_)[left[i]] < (*ranks_)[left[found]])) {
      found = i;
    }
  }
  return found == left.size() ? -1 : static_cast<std::int64_t>(left[found]);
}

}  // namespace koord::placement
