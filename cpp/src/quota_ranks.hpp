// SPDX-License-Identifier: Apache-2.0
// Sets of places in name order, as bits.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace koord::quota {

class RankSet {
 public:
  explicit RankSet(std::size_t ranks = 0) : words_((ranks + kBits - 1) / kBits) {}

  void insert(std::uint32_t rank) { words_[rank / kBits] |= bit(rank); }
  void erase(std::uint32_t rank) { words_[rank / kBits] &= ~bit(rank); }
  [[nodiscard]] bool has(std::uint32_t rank) const {
    return (words_[rank / kBits] & bit(rank)) != 0;
  }

  /// How many of the set are below the rank and not in `without`, a set of as many ranks.
  [[nodiscard]] std::size_t below(std::uint32_t rank, const RankSet& without) const {
    std::size_t count = 0;
    for (std::size_t i = 0; i < words_.size() && i * kBits < rank; ++i) {
      std::uint64_t word = words_[i] & ~without.words_[i];
      if (rank - i * kBits < kBits) word &= bit(rank) - 1;
      count += static_cast<std::size_t>(std::popcount(word));
    }
    return count;
  }

  /// The rank of the set's union below which there are `count`; the union must have more than that.
  static std::uint32_t nth(std::span<const RankSet* const> sets, std::size_t count) {
    for (std::size_t i = 0;; ++i) {
      std::uint64_t word = 0;
      for (const RankSet* set : sets) word |= set->words_[i];
      const auto here = static_cast<std::size_t>(std::popcount(word));
      if (count >= here) {
        count -= here;
        continue;
      }
      for (; count > 0; --count) word &= word - 1;
      return static_cast<std::uint32_t>(i * kBits +
                                        static_cast<std::size_t>(std::countr_zero(word)));
    }
  }

 private:
  static constexpr std::size_t kBits = 64;
  static std::uint64_t bit(std::uint32_t rank) { return std::uint64_t{1} << (rank % kBits); }
  std::vector<std::uint64_t> words_;
};

}  // namespace koord::quota
