// SPDX-License-Identifier: Apache-2.0
// RowBounds reads rows: each at its place, and of each block the ends of its columns.
#include "koord/placement_bounds.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include "placement_normal.hpp"
#include "placement_score.hpp"

namespace koord::placement {
namespace {

constexpr std::size_t kScored = 2;  // columns of nonzero

void check_sizes(const Columns& columns, std::span<const std::uint8_t> open,
                 std::span<const std::int64_t> ranks) {
  if (ranks.size() <= columns.stride && ranks.size() <= open.size()) return;
  throw Exception(invalid("ranks", std::to_string(ranks.size()), "at most one a row"));
}

// `all`: nothing less than all of them will do.
void check_rows(RowSet rows, std::size_t size, bool all) {
  if (all && (rows.index != nullptr || rows.first > 0 || rows.count < size)) {
    throw Exception(invalid("rows", std::to_string(rows.count), "all, of other columns"));
  }
  for (std::size_t i = 0; i < rows.count; ++i) {
    if (rows[i] >= 0 && static_cast<std::size_t>(rows[i]) < size) continue;
    throw Exception(not_found("row", std::to_string(rows[i]), "a row with a rank"));
  }
}

}  // namespace

void RowBounds::update(const Columns& columns, RowSet rows, std::span<const std::uint8_t> open,
                       std::span<const std::int64_t> ranks) {
  check_sizes(columns, open, ranks);
  const bool others =
      columns.stride != stride_ || columns.resources != resources_ || ranks.size() != rows_;
  check_rows(rows, ranks.size(), others);
  if (others) resize(columns, ranks.size());
  for (std::size_t i = 0; i < rows.count; ++i) {
    copy_row(static_cast<std::size_t>(rows[i]), columns, open, ranks);
  }
  changed_ = others ? 0 : changed_ + rows.count;
  const bool moves = is_order_due();
  note_load_due(rows, moves);
  if (moves) {
    order_rows(columns, open, ranks);
  } else {
    read_blocks(rows);
  }
}

// Forgets all; rows are in the order that they are given in.
void RowBounds::resize(const Columns& columns, std::size_t rows) {
  stride_ = columns.stride;
  resources_ = columns.resources;
  rows_ = rows;
  blocks_ = (rows_ + kBlock - 1) / kBlock;
  for (auto* column :
       {&least_offered_, &most_offered_, &least_taken_, &most_taken_, &most_free_, &nothing_}) {
    column->assign(resources_ * blocks_, 0);
  }
  for (auto* column : {&least_scored_, &most_scored_}) column->assign(kScored * blocks_, 0);
  for (auto* column : {&ranks_, &limits_}) column->assign(blocks_, 0);
  open_rows_.assign(blocks_, 0);
  for (auto* column : {&offered_, &taken_}) column->assign(resources_ * rows_, 0);
  scored_.assign(kScored * rows_, 0);
  place_ranks_.assign(rows_, 0);
  open_places_.assign(rows_, 0);
  order_.resize(rows_);
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  places_ = order_;
  by_use_ = false;
  searches_ = searched_ = 0;
  load_places_.clear();
}

// Reads a row, at its place.
void RowBounds::copy_row(std::size_t row, const Columns& columns,
                         std::span<const std::uint8_t> open, std::span<const std::int64_t> ranks) {
  const std::size_t place = places_[row];
  for (std::size_t i = 0; i < resources_; ++i) {
    offered_[i * rows_ + place] = columns.allocatable[i * stride_ + row];
    taken_[i * rows_ + place] = columns.requested[i * stride_ + row];
  }
  for (std::size_t i = 0; i < kScored; ++i) {
    scored_[i * rows_ + place] = columns.nonzero[i * stride_ + row];
  }
  open_places_[place] = open[row];
  place_ranks_[place] = ranks[row];
}

// Reads the blocks that rows stand in, each once.
void RowBounds::read_blocks(RowSet rows) {
  const auto block_of = [&](std::int64_t row) {
    return places_[static_cast<std::size_t>(row)] / kBlock;
  };
  if (rows.count == 1) return read_block(block_of(rows[0]));
  std::vector<std::uint8_t> due(blocks_);
  for (std::size_t i = 0; i < rows.count; ++i) due[block_of(rows[i])] = 1;
  for (std::size_t block = 0; block < blocks_; ++block) {
    if (due[block] != 0) read_block(block);
  }
}

void RowBounds::read_block(std::size_t block) {
  std::array<std::size_t, kBlock> places;
  std::size_t count = 0;
  std::int64_t rank = kHighest;
  for (std::size_t i = block * kBlock; i < std::min(rows_, (block + 1) * kBlock); ++i) {
    if (open_places_[i] == 0) continue;
    places[count++] = i;
    rank = std::min(rank, place_ranks_[i]);
  }
  open_rows_[block] = count;
  ranks_[block] = rank;
  if (count == 0) return;
  const std::span<const std::size_t> its{places.data(), count};
  for (std::size_t i = 0; i < resources_; ++i) read_resource(block, i, its);
  for (std::size_t i = 0; i < kScored; ++i) read_scored(block, i, its);
}

void RowBounds::read_resource(std::size_t block, std::size_t resource,
                              std::span<const std::size_t> places) {
  Ends offered;
  Ends taken;
  Ends left;
  for (const std::size_t place : places) {
    const std::int64_t has = offered_[resource * rows_ + place];
    const std::int64_t used = taken_[resource * rows_ + place];
    offered.include({has, has});
    taken.include({used, used});
    left.include({has - used, has - used});
  }
  const std::size_t at = resource * blocks_ + block;
  least_offered_[at] = offered.least;
  most_offered_[at] = offered.most;
  least_taken_[at] = taken.least;
  most_taken_[at] = taken.most;
  most_free_[at] = left.most;
}

void RowBounds::read_scored(std::size_t block, std::size_t resource,
                            std::span<const std::size_t> places) {
  Ends scored;
  for (const std::size_t place : places) {
    const std::int64_t its = scored_[resource * rows_ + place];
    scored.include({its, its});
  }
  least_scored_[resource * blocks_ + block] = scored.least;
  most_scored_[resource * blocks_ + block] = scored.most;
}

Columns RowBounds::kept() const {
  return {.allocatable = offered_.data(),
          .requested = taken_.data(),
          .nonzero = scored_.data(),
          .stride = rows_,
          .resources = resources_};
}

Columns RowBounds::most() const {
  return {.allocatable = most_offered_.data(),
          .requested = least_taken_.data(),
          .nonzero = least_scored_.data(),
          .stride = blocks_,
          .resources = resources_};
}

Columns RowBounds::least() const {
  return {.allocatable = least_offered_.data(),
          .requested = most_taken_.data(),
          .nonzero = most_scored_.data(),
          .stride = blocks_,
          .resources = resources_};
}

Columns RowBounds::free() const {
  return {.allocatable = most_free_.data(),
          .requested = nothing_.data(),
          .nonzero = least_scored_.data(),
          .stride = blocks_,
          .resources = resources_};
}

}  // namespace koord::placement
