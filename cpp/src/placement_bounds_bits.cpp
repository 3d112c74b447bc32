// SPDX-License-Identifier: Apache-2.0
// RowBounds takes answers that are bits: of a block of rows one look tells whether any row may be
// chosen, and what the best of it is at most worth by a pod's preferences.
#include <algorithm>
#include <array>
#include <cstring>

#include "koord/placement_bounds.hpp"
#include "placement_normal.hpp"
#include "placement_score.hpp"

namespace koord::placement {
namespace {

static_assert(64 % RowBounds::kBlock == 0);

constexpr std::size_t kByte = 8, kWord = 64;  // rows
constexpr std::uint64_t kWhole = (std::uint64_t{1} << RowBounds::kBlock) - 1;

// By 8 bits, 8 bytes of 0 or 1.
constexpr auto kBytes = [] {
  std::array<std::array<std::uint8_t, kByte>, 256> bytes{};
  for (std::size_t bits = 0; bits < bytes.size(); ++bits) {
    for (std::size_t i = 0; i < kByte; ++i) {
      bytes[bits][i] = static_cast<std::uint8_t>(bits >> i & 1U);
    }
  }
  return bytes;
}();

bool has(RowBits rows, std::size_t row) { return (rows[row / kWord] >> row % kWord & 1U) != 0; }

// The bits of a block, as the lowest ones.
std::uint64_t of_block(RowBits rows, std::size_t block) {
  constexpr std::size_t kBlocks = kWord / RowBounds::kBlock;
  const std::uint64_t its = rows[block / kBlocks] >> block % kBlocks * RowBounds::kBlock;
  return its & kWhole;
}

// The highest raw score of a block's rows, of those that are left: they are parted by conditions
// into sets that have the same.
std::int64_t most_of_block(const Preferences& given, std::size_t block, std::uint64_t left) {
  struct Equals {
    std::uint64_t rows = 0;
    std::int64_t sum = 0;
  };
  std::array<Equals, RowBounds::kBlock> sets;
  sets[0] = {left, 0};
  std::size_t count = 1;
  for (const auto& [weight, bits] : given.conditions) {
    const std::uint64_t its = of_block(bits, block);
    for (std::size_t i = 0, before = count; i < before; ++i) {
      const auto [rows, sum] = sets[i];
      if ((rows & its) == 0) continue;
      sets[i] = {rows & its, sum + weight};
      if ((rows & ~its) != 0) sets[count++] = {rows & ~its, sum};
    }
  }
  const std::span<const Equals> found{sets.data(), count};
  return std::ranges::max_element(found, {}, &Equals::sum)->sum;
}

// Leaves of rows that are allowed, 1, those that have their bit.
void allow_where(RowBits rows, std::span<std::uint8_t> allowed) {
  std::size_t row = 0;
  for (; row + kByte <= allowed.size(); row += kByte) {
    const auto& bytes = kBytes[rows[row / kWord] >> row % kWord & 0xFFU];
    std::uint64_t mask = 0;
    std::uint64_t its = 0;
    std::memcpy(&mask, bytes.data(), kByte);
    std::memcpy(&its, allowed.data() + row, kByte);
    its &= mask;
    std::memcpy(allowed.data() + row, &its, kByte);
  }
  for (; row < allowed.size(); ++row) {
    allowed[row] = static_cast<std::uint8_t>(allowed[row] & static_cast<unsigned>(has(rows, row)));
  }
}

}  // namespace

// Bits of rows as bits of places.
RowBits RowBounds::by_place(RowBits rows) {
  if (!by_use_) return rows;
  if (placed_ == place_bits_.size()) place_bits_.emplace_back();
  std::vector<std::uint64_t>& placed = place_bits_[placed_++];
  placed.assign((rows_ + kWord - 1) / kWord, 0);
  for (std::size_t place = 0; place < rows_; ++place) {
    placed[place / kWord] |= std::uint64_t{has(rows, order_[place])} << place % kWord;
  }
  return placed;
}

// Of places that are allowed, leaves those that all masks leave.
void RowBounds::allow_bits(const RowAnswers& answers) {
  placed_ = 0;
  left_bits_.clear();
  if (answers.bit_masks.empty()) return;
  const RowBits first = answers.bit_masks.front().first((rows_ + kWord - 1) / kWord);
  left_bits_.assign(first.begin(), first.end());
  for (const RowBits mask : std::span(answers.bit_masks).subspan(1)) {
    for (std::size_t i = 0; i < left_bits_.size(); ++i) left_bits_[i] &= mask[i];
  }
  if (by_use_) {
    const RowBits placed = by_place(left_bits_);
    left_bits_.assign(placed.begin(), placed.end());
  }
  allow_where(left_bits_, allowed_);
}

// Adds to the limits of blocks what their best rows get by preferences.
void RowBounds::limit_preferences(const Rooms& rooms, const Preferences& given) {
  Preferences placed = given;
  for (Preferences::Condition& each : placed.conditions) each.rows = by_place(each.rows);
  bound_preferences(placed);
  const std::int64_t most = most_preferred(rooms, placed);
  normalising(Normalization::kDefault, 0, most, [&](const auto& score) {
    for (std::size_t block = 0; block < blocks_; ++block) {
      if (limits_[block] == kLowest) continue;
      limits_[block] += given.weight * score(std::min(hoped_[block], most));
    }
  });
  preferred_.push_back({std::move(placed), most});
}

// By block the most that a row gets that masks leave.
void RowBounds::bound_preferences(const Preferences& by_place) {
  hoped_.assign(blocks_, -1);
  for (std::size_t block = 0; block < blocks_; ++block) {
    if (limits_[block] == kLowest) continue;
    const std::uint64_t left = left_bits_.empty() ? kWhole : of_block(left_bits_, block);
    hoped_[block] = most_of_block(by_place, block, left);
  }
}

// The most that any row gets that nothing refuses: the most promising block is looked at first, and
// after it those that may have more.
std::int64_t RowBounds::most_preferred(const Rooms& rooms, const Preferences& by_place) {
  const auto highest = static_cast<std::size_t>(std::ranges::max_element(hoped_) - hoped_.begin());
  std::int64_t most = std::max<std::int64_t>(ask_preferred(rooms, by_place, highest), 0);
  for (std::size_t block = 0; block < blocks_; ++block) {
    if (hoped_[block] > most) most = std::max(most, ask_preferred(rooms, by_place, block));
  }
  return most;
}

// What the best row of a block gets that nothing refuses, -1 if there is none: its rows without
// room are not allowed any more.
std::int64_t RowBounds::ask_preferred(const Rooms& rooms, const Preferences& by_place,
                                      std::size_t block) {
  const std::size_t first = block * kBlock;
  if (hoped_[block] < 0) return -1;
  allow_room(rooms, in_a_row(first, size_of(block)));
  std::int64_t most = -1;
  for (std::size_t place = first; place < first + size_of(block); ++place) {
    if (allowed_[place] != 0) most = std::max(most, preference(by_place, place));
  }
  hoped_[block] = most;
  return most;
}

// The raw score of a place.
std::int64_t RowBounds::preference(const Preferences& by_place, std::size_t place) {
  std::int64_t sum = 0;
  for (const auto& [weight, rows] : by_place.conditions) sum += has(rows, place) ? weight : 0;
  return sum;
}

}  // namespace koord::placement
