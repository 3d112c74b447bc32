// SPDX-License-Identifier: Apache-2.0
// RowBounds takes answers that are bits: of a block of rows one look tells whether any row may be
// chosen, and what the best of it is at most worth by a pod's preferences. Where rows have places
// of their own, that is asked of those blocks alone that come into question by columns.
#include <algorithm>
#include <array>
#include <bit>
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

// Rows of a word, or places of a block, of which the same conditions hold.
struct Equals {
  std::uint64_t rows = 0;
  std::int64_t sum = 0;
};

// Parts rows by the conditions that hold of them; `bits_of` gives those of a condition. The memory
// that the parts are in is the caller's: a row each at most.
template <class BitsOf>
std::span<Equals> parted(const Preferences& given, std::uint64_t left, std::span<Equals> parts,
                         const BitsOf& bits_of) {
  parts[0] = {left, 0};
  std::size_t count = 1;
  for (const auto& [weight, bits] : given.conditions) {
    const std::uint64_t its = bits_of(bits);
    for (std::size_t i = 0, before = count; i < before; ++i) {
      const auto [rows, sum] = parts[i];
      if ((rows & its) == 0) continue;
      parts[i] = {rows & its, sum + weight};
      if ((rows & ~its) != 0) parts[count++] = {rows & ~its, sum};
    }
  }
  return parts.first(count);
}

// Leaves of places of a block that are allowed, 1, those that have their bit.
void allow_where(std::uint64_t bits, std::span<std::uint8_t> allowed) {
  std::size_t at = 0;
  for (; at + kByte <= allowed.size(); at += kByte) {
    std::uint64_t mask = 0;
    std::uint64_t its = 0;
    std::memcpy(&mask, kBytes[bits >> at & 0xFFU].data(), kByte);
    std::memcpy(&its, allowed.data() + at, kByte);
    its &= mask;
    std::memcpy(allowed.data() + at, &its, kByte);
  }
  for (; at < allowed.size(); ++at) {
    allowed[at] = static_cast<std::uint8_t>(allowed[at] & static_cast<unsigned>(bits >> at & 1U));
  }
}

}  // namespace

// The rows that all masks leave.
void RowBounds::join_bits(const RowAnswers& answers) {
  left_bits_.clear();
  if (answers.bit_masks.empty()) return;
  const RowBits first = answers.bit_masks.front().first((rows_ + kWord - 1) / kWord);
  left_bits_.assign(first.begin(), first.end());
  for (const RowBits mask : std::span(answers.bit_masks).subspan(1)) {
    for (std::size_t i = 0; i < left_bits_.size(); ++i) left_bits_[i] &= mask[i];
  }
}

// Of the rows of a word those that masks leave.
std::uint64_t RowBounds::left_of_word(std::size_t word) const {
  const std::size_t rows = std::min(kWord, rows_ - word * kWord);
  const std::uint64_t known = ~std::uint64_t{0} >> (kWord - rows);
  return left_bits_.empty() ? known : left_bits_[word] & known;
}

// The bits of rows by place of a block.
std::uint64_t RowBounds::bits_of_block(RowBits rows, std::size_t block) const {
  if (!by_use_) return of_block(rows, block);
  std::uint64_t found = 0;
  const std::size_t first = block * kBlock;
  for (std::size_t i = 0; i < size_of(block); ++i) {
    found |= std::uint64_t{has(rows, order_[first + i])} << i;
  }
  return found;
}

// Of the places of a block that are allowed, leaves those that all masks leave. Of a block without
// one that may be chosen there is no limit.
void RowBounds::allow_bits(std::size_t block) {
  const std::span<std::uint8_t> its = std::span(allowed_).subspan(block * kBlock, size_of(block));
  if (!left_bits_.empty()) allow_where(bits_of_block(left_bits_, block), its);
  std::uint8_t any = 0;
  for (const std::uint8_t each : its) any = static_cast<std::uint8_t>(any | each);
  if (any == 0) limits_[block] = kLowest;
}

// Has the limit of a block take in answers that are bits, once.
void RowBounds::refine(std::size_t block) {
  if (coarse_.empty() || coarse_[block] == 0) return;
  coarse_[block] = 0;
  if (limits_[block] != kLowest) allow_bits(block);
  if (limits_[block] != kLowest) prefer(block);
}

// Takes from the limit of a block what no row of it gets by preferences.
void RowBounds::prefer(std::size_t block) {
  const std::uint64_t left = left_bits_.empty() ? kWhole : bits_of_block(left_bits_, block);
  std::array<Equals, kBlock> memory;
  for (const auto& [given, most] : preferred_) {
    const std::span<Equals> parts =
        parted(*given, left, memory, [&](RowBits rows) { return bits_of_block(rows, block); });
    const std::int64_t hoped = std::ranges::max_element(parts, {}, &Equals::sum)->sum;
    normalising(Normalization::kDefault, 0, most, [&](const auto& score) {
      limits_[block] -= given->weight * (score(most) - score(std::min(hoped, most)));
    });
  }
}

// Adds to the limits of blocks what the best of all rows gets by preferences.
void RowBounds::limit_preferences(const Rooms& rooms, const RowAnswers& answers) {
  for (const Preferences& given : answers.preferences) {
    const std::int64_t most = most_preferred(rooms, given);
    preferred_.push_back({&given, most});
    normalising(Normalization::kDefault, 0, most, [&](const auto& score) {
      for (std::int64_t& limit : limits_) {
        if (limit != kLowest) limit += given.weight * score(most);
      }
    });
  }
}

// The most that any row gets that nothing refuses: of the words of rows the most promising one is
// looked at first, and after it those that may have more; of a word the rows that get most first.
std::int64_t RowBounds::most_preferred(const Rooms& rooms, const Preferences& given) {
  std::array<Equals, kWord> memory;
  const auto parts_of = [&](std::size_t word) {
    return parted(given, left_of_word(word), memory, [&](RowBits rows) { return rows[word]; });
  };
  const std::size_t words = (rows_ + kWord - 1) / kWord;
  hoped_.assign(words, 0);
  for (std::size_t word = 0; word < words; ++word) {
    hoped_[word] = std::ranges::max_element(parts_of(word), {}, &Equals::sum)->sum;
  }
  std::int64_t most = 0;
  const auto ask = [&](std::size_t word) {
    for (const auto& [rows, sum] : parts_of(word)) {
      if (sum <= most) continue;
      for (std::uint64_t rest = rows; rest != 0; rest &= rest - 1) {
        const std::size_t row = word * kWord + static_cast<std::size_t>(std::countr_zero(rest));
        if (!may_go(rooms, row)) continue;
        most = sum;
        break;
      }
    }
  };
  ask(static_cast<std::size_t>(std::ranges::max_element(hoped_) - hoped_.begin()));
  for (std::size_t word = 0; word < words; ++word) {
    if (hoped_[word] > most) ask(word);
  }
  return most;
}

// Whether nothing refuses a row that masks which are bits leave.
bool RowBounds::may_go(const Rooms& rooms, std::size_t row) const {
  const std::size_t place = places_[row];
  if (allowed_[place] == 0 || limits_[place / kBlock] == kLowest) return false;
  std::int64_t left = 0;
  left_by_checks(rooms, kept(), in_a_row(place, 1), {&left, 1});
  return left >= 0;
}

// The raw score of a place.
std::int64_t RowBounds::preference(const Preferences& given, std::size_t place) const {
  std::int64_t sum = 0;
  for (const auto& [weight, rows] : given.conditions) {
    sum += has(rows, order_[place]) ? weight : 0;
  }
  return sum;
}

}  // namespace koord::placement
